"""The roots by which workloads verify their control plane, as the authority has them now.

On Kubernetes the control plane keeps them in a config map of every namespace; here they are a file
in each workload's directory, which agents read anew at each connection.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial

from mesh_filewatch import fetch_bytes, read_bytes, run_in_thread, watching
from mesh_local.config._plan import Instance
from mesh_local.state._folder import ROOT_CERTIFICATE, StateFolder, write_file

log = logging.getLogger("mesh_local")

_AUTHORITY_ROOTS = "root-cert.pem"
_MAX_ROOTS_BYTES = 1 << 20


def authority_roots(state: StateFolder) -> bytes:
    """Return the roots as the authority has them now."""
    return read_bytes(state.ca / _AUTHORITY_ROOTS, max_bytes=_MAX_ROOTS_BYTES)


def write_roots(roots_pem: bytes, instances: Iterable[Instance], state: StateFolder) -> None:
    """Write these roots into the directories of replicas."""
    for instance in instances:
        write_file(state.workload(instance.name) / ROOT_CERTIFICATE, roots_pem)


async def keep_roots_fresh(instances: Callable[[], Iterable[Instance]], state: StateFolder) -> None:
    """Copy the authority's roots to the workloads whenever they change; never returns.

    Every workload must have a new root before the control plane's own certificate leads to it;
    `mesh-discovery replace-root --spread` leaves time for that.
    """
    file = state.ca / _AUTHORITY_ROOTS
    known: bytes | None = None
    async with watching() as watch:
        while True:
            await watch.follow([file])
            try:
                roots = await fetch_bytes(file, max_bytes=_MAX_ROOTS_BYTES)
                if roots != known:
                    copying = partial(write_roots, roots, tuple(instances()), state)
                    await run_in_thread(copying, path=state.path / "any", key="roots")
                    if known is not None:
                        log.info(
                            "changed roots were copied to the workloads",
                            extra={"file": str(file)},
                        )
                known = roots
            except OSError as error:
                log.warning(
                    "roots can't be copied to the workloads",
                    extra={"reason": str(error)},
                )
            await watch.wait()
