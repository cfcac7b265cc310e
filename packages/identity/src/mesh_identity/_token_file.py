"""The file of a bearer token, which somebody else writes and replaces."""

from pathlib import Path

from mesh_filewatch import FETCH_TIMEOUT_S, fetch_bytes

_MAX_BYTES = 64 << 10  # no server takes headers as long


class TokenFileError(Exception):
    """A file that is there and can't be sent as a token; the message has nothing of its content.

    reason: the same, to follow "the token".
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"token file {path} {reason}")
        self.reason = reason


async def fetch_token(path: Path, *, timeout_s: float = FETCH_TIMEOUT_S) -> str | None:
    """Return the token in a file, empty if nothing is in it; None if there is no file.

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
