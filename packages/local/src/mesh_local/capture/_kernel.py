"""The kernel's calls for namespaces, which the standard library has from Python 3.12 on or not."""

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

NEW_MOUNTS = 0x00020000
NEW_USERS = 0x10000000
NEW_NETWORK = 0x40000000

_BIND = 0x1000
_RECURSIVE = 0x4000
_PRIVATE = 0x40000
_NO_SUID, _NO_DEVICES, _NO_EXEC = 0x2, 0x4, 0x8
_DETACH = 2
_PR_SET_PDEATHSIG = 1

_LIBC = ctypes.CDLL(None, use_errno=True)


def unshare(kinds: int) -> None:
    """Give this thread namespaces of its own; new ones of users need a process of one thread."""
    _check(_LIBC.unshare(kinds), "unshare")


def enter(namespace: Path | str, kind: int) -> None:
    """Move this thread into a namespace; into one of users or mounts, a process of one thread."""
    handle = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_opened(handle, kind)
    finally:
        os.close(handle)


def enter_opened(handle: int, kind: int) -> None:
    """Move this thread into a namespace by its descriptor, as `enter` does."""
    _check(_LIBC.setns(handle, kind), "setns")


def inside(network: Path | str, function: Callable[[], T]) -> T:
    """Return what a function returns in a network; sockets that it opens stay there."""
    return _in_thread(lambda: enter(network, NEW_NETWORK), function)


def inside_new_network(function: Callable[[], T]) -> T:
    """Return what a function returns in a network that is new, and ends unless it is held."""
    return _in_thread(lambda: unshare(NEW_NETWORK), function)


def _in_thread(entering: Callable[[], None], function: Callable[[], T]) -> T:
    """Run both in a thread of their own, which ends: no other is left in another network."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            entering()
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="in another network")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def keep_mounts_private() -> None:
    """Have nothing that this process mounts seen outside of its namespace, or the other way."""
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)


def mount_memory(folder: Path) -> None:
    """Mount an empty file system in memory, which ends with the namespace."""
    flags = _NO_SUID | _NO_DEVICES | _NO_EXEC
    _mount("mesh-local", str(folder), "tmpfs", flags, b"mode=0700,size=1m")


def mount_over(source: Path | str, target: Path) -> None:
    """Show a file, or hold a namespace, at the place of another file."""
    _mount(str(source), str(target), None, _BIND)


def unmount(target: Path) -> None:
    _check(_LIBC.umount2(os.fsencode(target), _DETACH), str(target))


def end_with_parent(parent: int, number: int) -> None:
    """Have the kernel signal this process when its parent ends; raises if it has ended already."""
    _check(_LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        raise ProcessLookupError(f"process {parent} has ended")


def _mount(source: str, target: str, kind: str | None, flags: int, data: bytes = b"") -> None:
    _check(
        _LIBC.mount(
            os.fsencode(source),
            os.fsencode(target),
            None if kind is None else kind.encode(),
            ctypes.c_ulong(flags),
            data,
        ),
        target,
    )


def _check(result: int, subject: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), subject)
