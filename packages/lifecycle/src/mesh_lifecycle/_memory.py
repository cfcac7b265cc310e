"""Memory that Python and the C library keep for later, given back to the system.

For a program to decide, not for a library, as it concerns the whole process.
"""

import asyncio
import gc
import sys

_CALLS_ARE_FREED_S = 0.1
"""gRPC's own threads free the memory of calls some time after they were collected."""


def trim_memory() -> bool:
    """Give back the memory that glibc has free; return whether there was any.

    A matter of milliseconds, during which other threads wait that allocate memory. Returns False
    where the C library is another one.
    """
    import ctypes  # here, for most processes never need it, and it takes some memory itself

    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError):
        return False


async def release_unused_memory() -> bool:
    """Free what Python keeps for later, then trim; return whether any memory was given back.

    Two steps of some 10 ms each, during which the event loop does nothing else.
    """
    _clear_method_cache()
    gc.collect()  # gRPC leaves a small cycle for every call, and exceptions keep their frames
    await asyncio.sleep(_CALLS_ARE_FREED_S)
    return trim_memory()


def _clear_method_cache() -> None:
    """Forget the names that C code looked up on objects.

    Each is a new string, and the cache keeps one for every connection with TLS, in a page of its
    own, although it is never looked up again.
    """
    if sys.version_info >= (3, 13):
        sys._clear_internal_caches()
    else:
        sys._clear_type_cache()
