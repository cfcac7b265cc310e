"""The errors of starting a secret server."""


class SdsError(Exception):
    """Root of every error this package raises on purpose."""


class SocketUnusable(SdsError):
    """The socket can't be served at its path; the message tells why, and the remedy."""


class ConfigError(SdsError):
    """A value of the configuration is wrong; the message names it."""
