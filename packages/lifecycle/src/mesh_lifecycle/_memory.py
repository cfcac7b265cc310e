"""Memory that the C library keeps after it was freed, given back to the system."""


def trim_memory() -> bool:
    """Give back the memory that glibc has free; return whether there was any.

    A matter of milliseconds, during which other threads wait that allocate memory. For the program
    to decide, not for a library, as it concerns the whole process. Returns False where the C
    library is another one.
    """
    import ctypes  # here, for most processes never need it, and it takes some memory itself

    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError):
        return False
