"""Program text that only the start needed leaves the agent's resident memory.

Half of a started agent's resident memory is code of the libraries that it ran once: imports, TLS
handshakes, certificates. These are clean pages of files; the kernel keeps them cached, and what
runs again comes back with a page fault, not a read from disk. What that saves, and what not, stands
in docs/decisions/0007-resident-memory.md.
"""

import ctypes
import logging
import re
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger(__name__)

_MADV_DONTNEED = 4
# A mapping of a file that can be run and not written, and its account up to the private pages.
_TEXT = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) r-xp \S+ \S+ \S+ +/.*\n(?:[A-Z]\w+: .*\n)*?Anonymous: +(\d+) kB$",
    re.MULTILINE,
)


def release(mappings: Path = Path("/proc/self/smaps")) -> None:
    """Unmap nothing, but let go of every page of executable code that is as it is in its file."""
    try:
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, size in unchanged_text(mappings.read_text()):
            madvise(start, size, _MADV_DONTNEED)
    except (AttributeError, OSError) as error:
        log.debug("program text stays resident", extra={"reason": str(error)})


def unchanged_text(smaps: str) -> Iterator[tuple[int, int]]:
    """Address and size of mapped program text, but for what was changed since: it would be lost."""
    for start, end, changed_kb in _TEXT.findall(smaps):
        if changed_kb == "0":
            yield int(start, 16), int(end, 16) - int(start, 16)
