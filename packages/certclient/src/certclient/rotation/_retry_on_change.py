"""Retries a failed attempt as soon as one of the files that it depends on changes.

An operator who mounts a new token or replaces a root file waits for the workload to recover. The
files are watched only while attempts fail, so a healthy workload pays nothing.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from certclient.feed._certificates import Certificates

_RESOLVE_AGAIN_S = 30.0


async def retry_on_change(
    certificates: Certificates, files: Sequence[Path], *, retry: Callable[[], None]
) -> None:
    """Call `retry` for each change to `files` while the newest attempt failed; runs for ever."""
    async for status in certificates.statuses():
        if status.last_error is not None:
            await _while_failing(certificates, files, retry)


async def _while_failing(
    certificates: Certificates, files: Sequence[Path], retry: Callable[[], None]
) -> None:
    from mesh_filewatch import watching  # here, because most workloads never need it

    async with watching() as watch:
        while certificates.last_error is not None:
            # Each time, because a link on the way may lead elsewhere by now.
            await watch.follow(files)
            if await watch.wait(_RESOLVE_AGAIN_S) and certificates.last_error is not None:
                retry()
