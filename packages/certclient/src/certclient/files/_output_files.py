"""Writes the certificate to files: `cert-chain.pem`, `key.pem` and `root-cert.pem`.

Each file is replaced by a rename, so a reader gets the old or the new one and never a part. The
order is roots, key, chain: a program that reloads when the chain changes finds the new key already
there.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from certclient._errors import InvalidConfig
from certclient.feed._certificates import Certificates
from certclient.x509._certificate import Certificate
from mesh_filewatch import run_in_thread
from mesh_lifecycle import Backoff, Clock, SystemClock, check_fields, in_background

log = logging.getLogger("certclient.files")

_TRY_AGAIN = Backoff(initial_s=0.5, maximum_s=15.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFilesConfig:
    """Where and how to write the files.

    mode: of each file, set again whenever a file is replaced.
    atomic: the files are links into a directory that is replaced as a whole, so that key, chain
        and roots change at one moment. A program that opens them through one directory handle, or
        reads the link `..data` once, never gets two generations.
    """

    directory: Path
    mode: int = 0o600
    atomic: bool = False

    def __post_init__(self) -> None:
        check_fields(self, error=InvalidConfig)


@asynccontextmanager
async def output_files(
    config: OutputFilesConfig, certificates: Certificates, *, clock: Clock | None = None
) -> AsyncIterator[None]:
    """Write each new certificate to the files for as long as the block runs.

    An expired certificate stays on disk, where it does no harm: no peer accepts it. A failure to
    write is logged and tried again.
    """
    writing = _write_changes(config, certificates, clock or SystemClock())
    async with in_background(writing, name="certificate files"):
        yield


async def _write_changes(
    config: OutputFilesConfig, certificates: Certificates, clock: Clock
) -> None:
    async for certificate in certificates.changes():
        if certificate is not None:
            await write_until_done(config, certificates, certificate, clock)
    # Reached only if rotation stopped first, when the caller is about to leave this block too.
    await asyncio.Event().wait()


async def write_until_done(
    config: OutputFilesConfig, certificates: Certificates, certificate: Certificate, clock: Clock
) -> bool:
    """Write the files, with retries; return False if a newer certificate came meanwhile."""
    for attempt, delay_s in enumerate(_TRY_AGAIN.delays(), start=1):
        try:
            changed = await write_files_in_thread(config, certificate)
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


async def write_files_in_thread(
    config: OutputFilesConfig, certificate: Certificate
) -> tuple[str, ...]:
    """Do what `write_files` does, in a thread; raises ReadTimedOut if the directory's mount hangs.

    A write that hangs goes on when the mount answers, and before any later write starts.
    """
    return await run_in_thread(
        partial(write_files, config, certificate),
        path=config.directory / "any",
        key=("write", config.directory),
    )


def write_files(config: OutputFilesConfig, certificate: Certificate) -> tuple[str, ...]:
    """Write the files whose content differs; return the names of these. Raises OSError."""
    config.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    contents = {
        "root-cert.pem": certificate.trust_bundle_pem,
        "key.pem": certificate.private_key_pem,
        "cert-chain.pem": certificate.chain_pem,
    }
    # Here, because most programs that import this module write no files.
    from certclient.files._atomic_writer import remove_generations, write_generation
    from certclient.files._plain_writer import replace_files

    if config.atomic:
        return write_generation(config.directory, contents, mode=config.mode)
    changed = replace_files(config.directory, contents, mode=config.mode)
    remove_generations(config.directory)
    return changed
