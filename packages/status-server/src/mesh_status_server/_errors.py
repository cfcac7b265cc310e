"""Errors of this package."""


class StatusServerError(Exception):
    """The root of this package's errors."""


class ListenError(StatusServerError):
    """The address can't be listened on; the message says why and what would help."""


class FetchError(StatusServerError):
    """Another server gave no usable answer, or not all of it; the message says why."""


class TooManyError(StatusServerError):
    """As many are under way as may be, and none ended in time."""
