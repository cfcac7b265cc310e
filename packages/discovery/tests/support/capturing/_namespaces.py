"""Network namespaces, each a machine of its own, on one switch."""

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TypeVar

from capturing._rules import capture_config
from mesh_traffic_capture import Backend, CaptureFailed, Mode, apply_capture

_T = TypeVar("_T")
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_NUMBERS = count()


@dataclass(frozen=True)
class Namespace:
    """One network namespace."""

    name: str

    def run(self, function: Callable[[], _T]) -> _T:
        """Run a function in it; sockets that are opened there stay there."""
        results: list[_T] = []
        errors: list[Exception] = []

        def enter() -> None:
            try:
                with Path(f"/run/netns/{self.name}").open("rb") as file:
                    if _LIBC.setns(file.fileno(), _CLONE_NEWNET) != 0:
                        raise OSError(ctypes.get_errno(), f"setns {self.name}")
                results.append(function())
            except Exception as error:  # noqa: BLE001 - raised below, in the caller's thread
                errors.append(error)

        thread = threading.Thread(target=enter, name=f"in {self.name}")
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    def socket(self, family: int = socket.AF_INET) -> socket.socket:
        """Make a TCP socket in it."""
        opened = self.run(lambda: socket.socket(family, socket.SOCK_STREAM))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return opened

    def ip(self, *commands: str, version: int | None = None) -> None:
        """Run commands of `ip` in it."""
        options = () if version is None else (f"-{version}",)
        ip_batch(commands, "-n", self.name, *options)


def ip_batch(commands: tuple[str, ...], *options: str) -> None:
    subprocess.run(
        ("ip", *options, "-batch", "-"),
        input="\n".join(commands),
        text=True,
        check=True,
        capture_output=True,
    )


@contextmanager
def namespace() -> Iterator[Namespace]:
    """Make a namespace, and remove it with its devices at the end."""
    created = Namespace(f"capture-{os.getpid()}-{next(_NUMBERS)}")
    ip_batch((f"netns add {created.name}",))
    try:
        created.ip("link set lo up")
        yield created
    finally:
        ip_batch((f"netns del {created.name}",))


@cache
def why_not(backend: Backend) -> str | None:
    """Return why namespaces can't be created here, or rules applied by a backend; or None."""
    if os.geteuid() != 0:
        return "network namespaces and rules of the kernel need root"
    if shutil.which("ip") is None:
        return "there is no command ip: install iproute2"
    try:
        with namespace() as tried:
            for mode in Mode:
                config = capture_config(mode)
                tried.run(partial(apply_capture, config, backend=backend))
    except (OSError, subprocess.CalledProcessError, CaptureFailed) as error:
        return f"network namespaces, or rules by {backend}, are not to be had here: {error}"
    return None
