"""The errors of a server that starts to listen."""


class ListenError(Exception):
    """An address or a path that can't be listened on; says which, why, and what would be right."""
