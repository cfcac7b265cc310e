"""The errors of reading a file, each an OSError with a whole sentence."""

import errno
import os


class UnfitFile(OSError):
    """A file that can't be used; str() has its path and the reason, `strerror` the reason alone."""

    def __init__(self, number: int, reason: str, path: str | os.PathLike[str]) -> None:
        super().__init__(number, reason, os.fspath(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class NotRegularFile(UnfitFile):
    """A FIFO, a socket, a device or a directory where a regular file is needed."""

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        number = errno.EISDIR if kind == "a directory" else errno.EINVAL
        super().__init__(number, f"it is {kind}, a regular file is needed", path)


class FileTooLarge(UnfitFile):
    """A file that is larger than the reader's `max_bytes`."""

    def __init__(self, path: str | os.PathLike[str], max_bytes: int) -> None:
        super().__init__(
            errno.EFBIG, f"it is larger than {max_bytes} bytes, more is not read", path
        )


class FileKeepsChanging(UnfitFile):
    """A file that was written to each time it was read."""

    def __init__(self, path: str | os.PathLike[str], tries: int) -> None:
        super().__init__(
            errno.EBUSY, f"it was changed while it was read, {tries} times in a row", path
        )


class ReadTimedOut(UnfitFile, TimeoutError):
    """A file whose file system did not answer in time."""

    def __init__(self, path: str | os.PathLike[str], timeout_s: float) -> None:
        super().__init__(
            errno.ETIMEDOUT,
            f"its file system did not answer within {timeout_s:.2g} s, is its mount hanging?",
            path,
        )
