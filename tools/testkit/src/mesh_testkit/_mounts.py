"""A file system that never answers, as a network mount whose server is gone."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_DETACH = 2


@contextmanager
def hanging_mount(directory: Path) -> Iterator[Path]:
    """Mount a file system on `directory` on which every call hangs until the block is left.

    Then each that hangs fails, and the directory is what it was. Skips the test where the kernel
    or the user's rights do not allow for it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        # The process with this descriptor has to answer the kernel's requests, and does not.
        server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    try:
        options = f"fd={server},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        if libc.mount(b"hanging", bytes(directory), b"fuse", 0, options.encode()):
            pytest.skip(f"no FUSE mount here: {os.strerror(ctypes.get_errno())}")
        try:
            yield directory
        finally:
            libc.umount2(bytes(directory), _DETACH)
    finally:
        os.close(server)
