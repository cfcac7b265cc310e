"""Where an object comes from: a place in a file, or a store that keeps it, such as a cluster."""

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class InFile:
    """A place in a file."""

    file: str
    line: int
    """From 1."""
    cluster: ClassVar[str] = ""
    """Files are of the mesh, and of no cluster of it."""

    def moved(self, by: int) -> "InFile":
        """Return the place so many lines further down."""
        return replace(self, line=self.line + by)


@dataclass(frozen=True, slots=True, kw_only=True)
class InStore:
    """A store of objects, which tells their versions by what Kubernetes' metadata says.

    store: what people call it. cluster: the one that it is of, as a part of its objects' keys;
    empty for a store of the whole mesh. generation: 0 where it is not known.
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
