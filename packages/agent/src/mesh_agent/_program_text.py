"""Program text that only the start needed leaves the agent's resident memory.

Half of a started agent's resident memory is code of the libraries that it ran once: imports, TLS
handshakes, certificates. These are clean pages of files; the kernel keeps them cached, and what
runs again comes back with a page fault, not a read from disk. What that saves, and what not, stands
in docs/decisions/0007-resident-memory.md.
"""

import ctypes
import logging
from pathlib import Path

log = logging.getLogger(__name__)

_MADV_DONTNEED = 4


def release(maps: Path = Path("/proc/self/maps")) -> None:
    """Unmap nothing, but let go of every page of executable code that is mapped from a file.

    Only mappings that can't be written: what was changed in a private one would be lost.
    """
    try:
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for line in maps.read_text().splitlines():
            addresses, permissions, _, _, _, *path = line.split(maxsplit=5)
            if permissions == "r-xp" and path and path[0].startswith("/"):
                start, end = (int(address, 16) for address in addresses.split("-"))
                madvise(start, end - start, _MADV_DONTNEED)
    except (AttributeError, OSError) as error:
        log.debug("program text stays resident", extra={"reason": str(error)})
