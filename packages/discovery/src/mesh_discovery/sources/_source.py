"""The protocols of sources: what knows facts about a mesh, and says when they change.

Istio's counterparts are its config stores and service registries (pilot/pkg/model/config.go,
pilot/pkg/serviceregistry). Those send events; here facts are values, and what a change touches is
found by comparing two models. So no event can be lost, come twice, or in the wrong order.
"""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from istio_config import Snapshot
from mesh_discovery.sources._reading import Reading
from mesh_model import Facts, MeshModel


class OnChange(Protocol):
    """The callback of a source; it has the new facts served before it returns."""

    def __call__(self, *, at: float | None = None) -> None:
        """at: when the change happened, by `time.monotonic`; None: not known. For latencies."""


class ObjectSource(Protocol):
    """A source of configuration objects: files, a cluster's API, a pipe, a program's own data.

    A control plane uses it in one event loop, and no method may block that. Errors are for the
    source to handle: it keeps the last good objects and says in `reading` what is wrong. An
    exception out of `following` stops the control plane.
    """

    @property
    def snapshot(self) -> Snapshot:
        """All objects that are known now.

        Make it by `istio_config.Snapshots`, which also gives objects the ages by which one wins
        over another. An object that did not change has to be the same Python object as before: so
        an edit costs what was edited. Its `origin` says where it is from, and of which cluster.
        """

    @property
    def reading(self) -> Reading:
        """The outcome of the last look: the problems, shown by `mesh-discovery status`."""

    async def is_current(self) -> bool:
        """Return whether `snapshot` is what is there at this moment, mistakes left aside.

        `mesh-discovery wait` asks. A source that learns of changes at once returns True.
        """

    def following(self, on_change: OnChange) -> AbstractAsyncContextManager[None]:
        """Keep up while the block runs: call `on_change` after each new `snapshot`, in the loop.

        A change between the first use of `snapshot` and here needs no call.
        """


class Source(Protocol):
    """A source of further facts, which depend on the objects: registrations, addresses, keys."""

    def add_to(self, facts: Facts) -> Facts:
        """Return facts with those that are known here now; it must not block."""

    def on_model(self, model: MeshModel) -> None:
        """Note what the model that is served now refers to, such as names to look up."""

    def following(self, on_change: OnChange) -> AbstractAsyncContextManager[None]:
        """Keep up while the block runs: call `on_change` after each change, in the loop."""
