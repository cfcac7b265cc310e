"""Trying again when somebody mends what the last attempt failed for.

A token that is mounted anew, a root that is put in its place: whoever does it looks at the workload
and waits. Files are watched only while attempts fail, so that a workload that is well pays nothing.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from certclient.feed._certificates import Certificates

_LOOK_S = 30.0


async def retry_on_change(
    certificates: Certificates, files: Sequence[Path], *, again: Callable[[], None]
) -> None:
    """Call `again` for each change to `files` while the newest attempt failed; runs for ever."""
    async for status in certificates.statuses():
        if status.last_error is not None:
            await _while_failing(certificates, files, again)


async def _while_failing(
    certificates: Certificates, files: Sequence[Path], again: Callable[[], None]
) -> None:
    from mesh_filewatch import watching  # here: most workloads never need it

    async with watching() as watch:
        while certificates.last_error is not None:
            # Before the waiting, and anew each time: a link may lead elsewhere by now.
            await watch.follow(files)
            if await watch.wait(_LOOK_S) and certificates.last_error is not None:
                again()
