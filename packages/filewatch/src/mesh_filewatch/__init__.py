"""Reads and watches files that a user or another program puts in place.

No such file can block the caller. A FIFO, a device, a file without an end and a hung mount are each
an error with a whole sentence.
"""

from mesh_filewatch._calls_in_threads import (
    FETCH_TIMEOUT_S,
    fetch_bytes,
    read_bytes_with_timeout,
    run_in_thread,
    run_with_timeout,
)
from mesh_filewatch._directory_events import DirectoryEvent, OnEvent, Unwatch, WatchDirectory
from mesh_filewatch._errors import (
    FileKeepsChanging,
    FileTooLarge,
    NotRegularFile,
    ReadTimedOut,
    UnfitFile,
)
from mesh_filewatch._file_calls import FileCall, FileCalls
from mesh_filewatch._file_stat import FileStat, file_stat
from mesh_filewatch._reading import read_bytes
from mesh_filewatch._thread_pool import ThreadPool
from mesh_filewatch._watching import FileWatch, WatchTiming, watching

__all__ = [
    # read
    "FETCH_TIMEOUT_S",
    "fetch_bytes",
    "read_bytes",
    "read_bytes_with_timeout",
    "run_in_thread",
    "run_with_timeout",
    "FileCall",
    "FileCalls",
    "ThreadPool",
    # watch
    "FileWatch",
    "WatchTiming",
    "FileStat",
    "file_stat",
    "watching",
    # replaces inotify in tests
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
