"""Another network namespace for this thread."""

from __future__ import annotations

import errno
import os

from mesh_traffic_capture._errors import CaptureFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_NEW_NETWORK: Final = 0x40000000
_WHY: Final = {
    errno.EPERM: "that takes root, or CAP_SYS_ADMIN",
    errno.EINVAL: "it is no network namespace: name a file such as /var/run/netns/NAME or "
    "/proc/PID/ns/net",
}


def enter_network_namespace(path: str) -> None:
    """Enter the namespace of a file for good; raises `CaptureFailed`."""
    try:
        # A path that is a pipe would be waited for until somebody writes to it.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise CaptureFailed(
            f"the network namespace {path} can't be opened: {error.strerror}"
        ) from error
    try:
        code = _setns(file)
    finally:
        os.close(file)
    if code:
        raise CaptureFailed(
            f"the network namespace {path} can't be entered: {_WHY.get(code, os.strerror(code))}"
        )


def _setns(file: int) -> int:
    """Return 0 or the kernel's error."""
    if hasattr(os, "setns"):  # Python 3.12 and newer
        try:
            os.setns(file, _NEW_NETWORK)
        except OSError as error:
            return error.errno or errno.EINVAL
        return 0
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if libc.setns(file, _NEW_NETWORK) != 0 else 0
