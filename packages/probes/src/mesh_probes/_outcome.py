"""The outcome of one check."""

from dataclasses import dataclass, field

MAX_BODY_BYTES = 10 * 1024
_LONGEST_QUOTE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Whether the application is healthy, and what it answered."""

    healthy: bool
    status: int
    """An HTTP status: the application's own, or 200 or 500 where it gave none."""
    reason: str = ""
    """Why the application is not healthy, as a sentence that names what was checked."""
    body: bytes = field(default=b"", repr=False)
    """The first 10 KiB of the HTTP response, or of what the command printed."""


def quoted(text: str | bytes) -> str:
    """Return text of the application so that it fits into one line of a reason."""
    plain = text.decode(errors="replace") if isinstance(text, bytes) else text
    shortened = plain if len(plain) <= _LONGEST_QUOTE else f"{plain[:_LONGEST_QUOTE]}…"
    return repr(shortened)
