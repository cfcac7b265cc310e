"""Files that somebody else names and puts in place: read so that none can block, and followed.

A FIFO, a device, a file without an end and a hung mount are all told, in a sentence.
"""

from mesh_filewatch._directory_events import DirectoryEvent, OnEvent, Unwatch, WatchDirectory
from mesh_filewatch._errors import (
    FileKeepsChanging,
    FileTooLarge,
    NotRegularFile,
    ReadTimedOut,
    UnfitFile,
)
from mesh_filewatch._fetching import (
    FETCH_TIMEOUT_S,
    fetch_bytes,
    read_within,
    run_aside,
    run_within,
)
from mesh_filewatch._lookups import Lookup, Lookups
from mesh_filewatch._reading import read_bytes
from mesh_filewatch._stamps import Stamp, stamp
from mesh_filewatch._watching import FileWatch, Pace, watching

__all__ = [
    # read
    "FETCH_TIMEOUT_S",
    "fetch_bytes",
    "read_bytes",
    "read_within",
    "run_aside",
    "run_within",
    "Lookup",
    "Lookups",
    # watch
    "FileWatch",
    "Pace",
    "Stamp",
    "stamp",
    "watching",
    # what stands in for the kernel
    "DirectoryEvent",
    "WatchDirectory",
    "OnEvent",
    "Unwatch",
    # what can be wrong with a file
    "FileKeepsChanging",
    "FileTooLarge",
    "NotRegularFile",
    "ReadTimedOut",
    "UnfitFile",
]
