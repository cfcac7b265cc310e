"""The certificate as files, for programs that read `cert-chain.pem`, `key.pem`, `root-cert.pem`.

Each file is replaced by a rename, so a reader sees the old or the new one and never a part. The
order is roots, key, chain: a program that reloads when the chain changes finds its key in place.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from certclient.feed._certificates import Certificates
from certclient.x509._certificate import Certificate
from mesh_filewatch import UnfitFile, read_bytes, run_in_thread
from mesh_lifecycle import Backoff, Clock, SystemClock, in_background

log = logging.getLogger("certclient")

CURRENT = "..data"
"""The link to the generation of an atomic output."""
_TRY_AGAIN = Backoff(initial_s=0.5, maximum_s=15.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFilesConfig:
    """Where to write.

    mode: of each file, set again whenever one is replaced.
    atomic: the files are links into a directory that is replaced as a whole, so that key, chain
        and roots change as one; a program that opens them through one directory handle, or reads
        `..data` once, never sees two generations.
    """

    directory: Path
    mode: int = 0o600
    atomic: bool = False


@asynccontextmanager
async def output_files(
    config: OutputFilesConfig, certificates: Certificates, *, clock: Clock | None = None
) -> AsyncIterator[None]:
    """Keep the files as fresh as the certificate for as long as the block runs.

    A certificate that expired unrenewed stays on disk: nobody accepts it any more. What can't be
    written is logged and tried again.
    """
    keeping = _keep(config, certificates, clock or SystemClock())
    async with in_background(keeping, name="certificate files"):
        yield


async def _keep(config: OutputFilesConfig, certificates: Certificates, clock: Clock) -> None:
    async for certificate in certificates.changes():
        if certificate is not None:
            await write_until_done(config, certificates, certificate, clock)
    # Only reached when rotation stopped first; whoever nested the blocks is about to leave ours.
    await asyncio.Event().wait()


async def write_until_done(
    config: OutputFilesConfig, certificates: Certificates, certificate: Certificate, clock: Clock
) -> bool:
    """Write, and try again while that fails; False if a newer certificate came meanwhile."""
    for attempt, delay_s in enumerate(_TRY_AGAIN.delays(), start=1):
        try:
            changed = await write_files_aside(config, certificate)
        except OSError as error:
            log.warning(
                "certificate files not written, trying again",
                extra={
                    "directory": str(config.directory),
                    "attempt": attempt,
                    "reason": error.strerror,
                    "next_attempt_in_s": round(delay_s, 2),
                },
            )
        else:
            log.debug("certificate files written", extra={"changed": list(changed)})
            return True
        await clock.sleep(delay_s)
        if certificates.latest is not certificate:
            return False
    return False


async def write_files_aside(config: OutputFilesConfig, certificate: Certificate) -> tuple[str, ...]:
    """Do what `write_files` does; a directory whose mount hangs is given up after a while.

    What hangs there goes on when the mount answers, and before anything later is written.
    """
    return await run_in_thread(
        partial(write_files, config, certificate),
        path=config.directory / "any",
        key=("write", config.directory),
    )


def write_files(config: OutputFilesConfig, certificate: Certificate) -> tuple[str, ...]:
    """Write what differs from what is there; return the names that changed. Raises OSError."""
    config.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    contents = {
        "root-cert.pem": certificate.trust_bundle_pem,
        "key.pem": certificate.private_key_pem,
        "cert-chain.pem": certificate.chain_pem,
    }
    if config.atomic:
        from certclient.files._atomic_writer import (
            write_generation,  # here, for the same reason as below
        )

        return write_generation(config.directory, contents, mode=config.mode)
    changed = tuple(
        name
        for name, content in contents.items()
        if _replace(config.directory / name, content, config.mode)
    )
    if (config.directory / CURRENT).is_symlink():
        from certclient.files._atomic_writer import remove_generations

        remove_generations(config.directory)
    return changed


def _replace(path: Path, content: bytes, mode: int) -> bool:
    # A link leads into a generation, which nobody keeps fresh without `atomic`.
    if not path.is_symlink() and holds(path, content):
        path.chmod(mode)
        return False
    import tempfile  # here: it brings much, and most programs that import us write no files

    # mkstemp makes the file 0600 from the first moment, whatever the umask.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return True


def holds(path: Path, content: bytes) -> bool:
    """Whether a regular file is there that holds this and no more. Raises OSError."""
    try:
        return read_bytes(path, max_bytes=len(content)) == content
    except (FileNotFoundError, UnfitFile):
        return False
