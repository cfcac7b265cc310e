"""What can go wrong, one class for each thing a caller can act on."""

from __future__ import annotations

from envoy_supervisor._exit import Exit


class EnvoySupervisorError(Exception):
    """The root of every error this package raises."""


class EnvoyNotFound(EnvoySupervisorError):
    """No usable Envoy executable; the message says where it was looked for."""


class BootstrapError(EnvoySupervisorError):
    """A value that cannot stand in a bootstrap; the message names the field."""


class EnvoyExited(EnvoySupervisorError):
    """Envoy ended while something was still expected of it; `exit` says why it ended."""

    def __init__(self, exit: Exit) -> None:
        super().__init__(exit.reason)
        self.exit = exit


class RestartRefused(EnvoySupervisorError):
    """The new configuration or binary does not work; what ran before goes on."""


class EnvoyNotReady(EnvoySupervisorError):
    """Envoy runs but did not become ready in the time given."""


class AdminError(EnvoySupervisorError):
    """The admin interface could not be reached, or answered with something unusable."""
