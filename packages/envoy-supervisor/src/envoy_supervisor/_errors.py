"""The errors of this package, one class for each case that a caller can act on."""

from __future__ import annotations

from envoy_supervisor._exit import Exit


class EnvoySupervisorError(Exception):
    """The root of every error this package raises."""


class EnvoyNotFound(EnvoySupervisorError):
    """No usable Envoy executable was found; the message says where it was looked for."""


class BootstrapError(EnvoySupervisorError):
    """A value that a bootstrap cannot have; the message names the field."""


class EnvoyExited(EnvoySupervisorError):
    """Envoy ended before the caller's condition was met; `exit` says why."""

    def __init__(self, exit: Exit) -> None:
        super().__init__(exit.reason)
        self.exit = exit


class RestartRefused(EnvoySupervisorError):
    """The new configuration or binary does not work; the old one runs on."""


class EnvoyNotReady(EnvoySupervisorError):
    """Envoy runs but did not become ready in the time given."""


class AdminError(EnvoySupervisorError):
    """The admin interface could not be reached, or answered with something unusable."""
