"""What can go wrong, each with the sentence its reader needs."""

from dataclasses import dataclass
from pathlib import Path


class MeshLocalError(Exception):
    """A mesh that can't be started or kept; the message is one sentence for the user."""


class AddressError(MeshLocalError):
    """This machine has no addresses left for the mesh."""


class StateError(MeshLocalError):
    """The state folder can't be used."""


class ConfigurationError(MeshLocalError):
    """Configuration with which the control plane would not start; a line for each mistake."""


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


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One mistake in a mesh file, as one sentence with its place."""

    line: int
    field: str
    message: str


class MeshFileError(MeshLocalError):
    """A mesh file that can't be used; `problems` holds every mistake found."""

    def __init__(self, file: Path, problems: tuple[Problem, ...]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(self._sentence(each) for each in self.problems))

    def _sentence(self, problem: Problem) -> str:
        field = f"{problem.field}: " if problem.field else ""
        return f"{self.file}:{problem.line}: {field}{problem.message}"
