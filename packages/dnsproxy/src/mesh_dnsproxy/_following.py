"""A file that is read again whenever it has changed; what can't be read is told once."""

import hashlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from mesh_filewatch import fetch_bytes, watching

log = logging.getLogger(__name__)


async def follow(
    path: Path, *, max_bytes: int, take: Callable[[bytes], Awaitable[None]], first: bytes | None
) -> None:
    """Hand the file's content to `take` each time it has changed, for ever.

    first: what was read already, if anything was. A file that is missing or no file at all changes
    nothing.
    """
    last = None if first is None else _digest(first)
    told = ""
    async with watching() as watch:
        while True:
            await watch.follow([path])
            try:
                content = await fetch_bytes(path, max_bytes=max_bytes)
                told = ""
            except OSError as error:
                if str(error) != told:
                    told = str(error)
                    log.warning("file can't be read", extra={"file": str(path), "error": told})
            else:
                if _digest(content) != last:
                    last = _digest(content)
                    await take(content)
                del content  # which may be large, and was taken
            await watch.wait()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
