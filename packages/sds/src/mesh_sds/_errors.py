"""What can go wrong when a secret server starts."""


class SdsError(Exception):
    """Root of every error this package raises on purpose."""


class SocketUnusable(SdsError):
    """The socket can't be served at its path; the message says why and what would be right."""


class ConfigError(SdsError):
    """A value of the configuration that can't be right; the message names it."""
