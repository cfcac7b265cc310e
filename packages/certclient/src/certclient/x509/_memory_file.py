"""Gives content in memory a path, for `ssl`, which reads keys only from files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """Yield a path to the content, which is valid for as long as the block runs."""
    descriptor = os.memfd_create("workload certificate")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
