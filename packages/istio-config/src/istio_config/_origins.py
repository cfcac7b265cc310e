"""Where an object comes from: a line of a file, or a store that keeps it, such as a cluster."""

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class InFile:
    """A line of a file."""

    file: str
    line: int
    """From 1."""
    cluster: ClassVar[str] = ""
    """Files are of the whole mesh, of no single cluster."""

    def moved(self, by: int) -> "InFile":
        """Return the line that is `by` lines further down."""
        return replace(self, line=self.line + by)


@dataclass(frozen=True, slots=True, kw_only=True)
class InStore:
    """A store of objects, with the version of this one by its Kubernetes metadata.

    store: its name in messages. cluster: the cluster whose store it is, a part of its objects'
    keys; empty for a store of the whole mesh. generation: 0 if unknown.
    """

    store: str
    cluster: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0

    def moved(self, by: int) -> "InStore":  # noqa: ARG002
        """Return it as it is: what is in no file has no lines."""
        return self


Origin: TypeAlias = InFile | InStore
