"""Why the agent can't be started, or ended by itself; each error holds sentences for its user."""


class ConfigError(Exception):
    """The configuration can't be used; `problems` holds one sentence for each mistake."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class ListenError(Exception):
    """An address can't be listened on."""


class BootstrapNotWritten(Exception):
    """The gRPC bootstrap file can't be written."""


class EnvoyEnded(Exception):
    """Envoy ended by itself, more often than the agent starts it again."""


class ApplicationNotStarted(Exception):
    """The application can't be started. exit_status: what a shell would return for it."""

    def __init__(self, message: str, *, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class NoSuchProcess(Exception):
    """The agent is to end with a process, and there is none of that id."""


class StopOverdue(Exception):
    """The agent's stop took longer than its parts may take, and was cut short."""
