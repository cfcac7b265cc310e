"""Reads the file of a bearer token, which another program writes and replaces."""

from pathlib import Path

from mesh_filewatch import FETCH_TIMEOUT_S, fetch_bytes

_MAX_BYTES = 64 << 10  # servers refuse headers of this length


class TokenFileError(Exception):
    """A file that can't be read or sent as a token; the message has nothing of its content.

    reason: the reason alone, as the rest of a sentence after "the token".
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"token file {path} {reason}")
        self.reason = reason


async def fetch_token(path: Path, *, timeout_s: float = FETCH_TIMEOUT_S) -> str | None:
    """Return the token in a file, empty if the file is empty; None without a file.

    Raises TokenFileError.
    """
    try:
        content = (await fetch_bytes(path, max_bytes=_MAX_BYTES, timeout_s=timeout_s)).strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TokenFileError(path, f"cannot be read: {error.strerror}") from error
    # RFC 6750, section 2.1, allows fewer characters; these are what a header can carry.
    if not all(0x20 < byte < 0x7F for byte in content):
        raise TokenFileError(path, "does not hold a bearer token: expected one word of ASCII")
    return content.decode("ascii")
