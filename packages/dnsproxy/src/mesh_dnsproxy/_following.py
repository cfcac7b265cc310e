"""Reads a file again whenever it has changed; an error is logged once."""

import hashlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from mesh_filewatch import fetch_bytes, watching

log = logging.getLogger(__name__)


async def follow(
    path: Path, *, max_bytes: int, apply: Callable[[bytes], Awaitable[None]], first: bytes | None
) -> None:
    """Call `apply` with the file's content each time it has changed, until cancelled.

    first: the content that was applied already, if any. A file that does not exist or can't be
    read changes nothing.
    """
    last = None if first is None else _digest(first)
    logged = ""
    async with watching() as watch:
        while True:
            await watch.follow([path])
            try:
                content = await fetch_bytes(path, max_bytes=max_bytes)
                logged = ""
            except OSError as error:
                if str(error) != logged:
                    logged = str(error)
                    log.warning("file can't be read", extra={"file": str(path), "error": logged})
            else:
                if _digest(content) != last:
                    last = _digest(content)
                    await apply(content)
                del content  # it may be large
            await watch.wait()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
