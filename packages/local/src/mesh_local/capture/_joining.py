"""Moves this process into the namespaces of a mesh that runs in some of its own."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from mesh_local._errors import NetworkError

KINDS = ("user", "net", "mnt")
"""In this order: in the first, the user may enter the others, and with the last, paths change."""


def own_namespaces(kinds: Iterable[str]) -> list[int]:
    """Return descriptors of the namespaces that this process is in; the caller closes them."""
    return [os.open(f"/proc/self/ns/{each}", os.O_RDONLY | os.O_CLOEXEC) for each in kinds]


def join(handles: Mapping[str, int]) -> bool:
    """Enter namespaces, by their kinds; return whether this process was in others.

    This process must have one thread. Raises `NetworkError`.
    """
    wanted = [kind for kind in KINDS if kind in handles and not _is_in(kind, handles[kind])]
    if not wanted:
        return False
    from mesh_local.capture import _kernel  # only a mesh with networks needs it

    flags = {"user": _kernel.NEW_USERS, "net": _kernel.NEW_NETWORK, "mnt": _kernel.NEW_MOUNTS}
    here = Path.cwd()
    try:
        for kind in wanted:
            _kernel.enter_opened(handles[kind], flags[kind])
        os.chdir(here)
    except OSError as error:
        raise NetworkError(
            f"the networks of the mesh can't be entered: {error.strerror}; run this as the user "
            "who runs the mesh"
        ) from None
    return True


def enter_network(network: str) -> None:
    """Enter a workload's network, after `join`; raises `NetworkError`."""
    from mesh_local.capture import _kernel

    try:
        _kernel.enter(network, _kernel.NEW_NETWORK)
    except OSError as error:
        raise NetworkError(f"the network {network} can't be entered: {error.strerror}") from None


def _is_in(kind: str, handle: int) -> bool:
    return os.path.samestat(Path(f"/proc/self/ns/{kind}").stat(), os.fstat(handle))
