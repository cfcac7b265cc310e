"""Gives content in memory a path, for `ssl`, which reads keys only from files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """Yield a path to the content, which is valid for as long as the block runs.

    The content is on no disk, so that a full one is no hindrance, and no other user can open it.
    Raises OSError, as when the process has no file descriptor left.
    """
    descriptor = os.memfd_create("certificate")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
