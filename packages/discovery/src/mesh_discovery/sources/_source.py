"""The protocol of what knows something about a mesh.

Sources are laid over each other in order, so each sees what those before it know.
"""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from mesh_discovery.sources._reading import Reading
from mesh_model import Facts, MeshModel


class Changed(Protocol):
    """Takes note that what a source knows is another now."""

    def __call__(self, *, at: float | None = None) -> None:
        """at: when it changed, by `time.monotonic`; None when that is not known."""


class Source(Protocol):
    """Something that knows facts about a mesh."""

    def laid_over(self, facts: Facts) -> Facts:
        """Return facts with those that are known here now; costs nothing that waits."""

    def following(self, changed: Changed) -> AbstractAsyncContextManager[None]:
        """Keep up while the block runs; `changed` is called after each change, in the loop."""


class ObjectSource(Source, Protocol):
    """A source of the objects that somebody writes."""

    @property
    def reading(self) -> Reading:
        """The outcome of the last look."""

    async def is_current(self) -> bool:
        """Return whether what is known is what is there at this moment, mistakes left aside."""


class AskedSource(Source, Protocol):
    """A source that finds out what the mesh asks for, as names are looked up."""

    def asked_by(self, model: MeshModel) -> None:
        """Take note of what is served now, and so of what is wanted; costs nothing that waits."""
