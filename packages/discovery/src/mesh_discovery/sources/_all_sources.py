"""All sources of a control plane together."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from mesh_discovery.sources._source import ObjectSource, OnChange, Source
from mesh_model import Facts, MeshModel


class Sources:
    """A source of objects, and those of further facts, each of which sees the facts before it.

    So a workload can register in a WorkloadGroup that is among the objects.
    """

    def __init__(self, objects: ObjectSource, *others: Source) -> None:
        self.objects = objects
        self._others = others
        self._given: object = None
        """The identity of the snapshot in the last facts."""

    @property
    def facts(self) -> Facts:
        """The facts of all sources now."""
        facts = Facts(snapshot=self.objects.snapshot)
        self._given = facts.snapshot.identity
        for each in self._others:
            facts = each.add_to(facts)
        return facts

    def on_model(self, model: MeshModel) -> None:
        """Have the sources note what the model that is served now refers to."""
        for each in self._others:
            each.on_model(model)

    @asynccontextmanager
    async def following(self, on_change: OnChange) -> AsyncIterator[None]:
        """Keep up while the block runs; `on_change` is called after each change of a source."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.objects.following(on_change))
            for each in self._others:
                await stack.enter_async_context(each.following(on_change))
            if self._given not in (None, self.objects.snapshot.identity):
                on_change()  # the objects changed before they were followed
            yield
