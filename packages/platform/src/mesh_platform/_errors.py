"""The one error: no metadata."""


class NoMetadata(Exception):
    """The metadata server gave no usable answer; the text says which server, and why."""
