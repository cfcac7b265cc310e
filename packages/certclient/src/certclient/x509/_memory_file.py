"""Content with a path that never touches a disk, for `ssl`, which reads keys from files only."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """Give content a path for as long as the block lasts."""
    descriptor = os.memfd_create("workload certificate")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
