"""The errors of this package; each message is a sentence for the user."""

from collections.abc import Iterable
from pathlib import Path

from mesh_configfile import Problem


class MeshLocalError(Exception):
    """A mesh that can't be started or kept; the message is one sentence for the user."""


class AddressError(MeshLocalError):
    """This machine has no addresses left for the mesh."""


class NetworkError(MeshLocalError):
    """This machine, or this user, can't have networks for the workloads."""


class StateError(MeshLocalError):
    """The state folder can't be used."""


class ConfigurationError(MeshLocalError):
    """The control plane would not start with this configuration; a line for each mistake."""


class Stopped(MeshLocalError):
    """The user stopped a run."""


class NotRunning(MeshLocalError):
    """No mesh runs that could be asked."""


class FaultError(MeshLocalError):
    """A fault or a rule that this mesh can't have; the message says what there is."""


class NoAnswer(MeshLocalError):
    """The connection was refused, or closed before an answer came."""


class NotReady(MeshLocalError):
    """A process did not become ready in time."""

    def __init__(self, message: str, *, log: Path) -> None:
        super().__init__(message)
        self.log = log


class ProcessEnded(MeshLocalError):
    """A process ended, though it should run for as long as the mesh does."""

    def __init__(self, message: str, *, log: Path) -> None:
        super().__init__(message)
        self.log = log


class MeshFileError(MeshLocalError):
    """A mesh file that can't be used; `problems` holds every mistake found."""

    def __init__(self, file: Path, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))
