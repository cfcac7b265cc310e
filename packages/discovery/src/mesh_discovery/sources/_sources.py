"""All sources of a control plane together."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from mesh_discovery.sources._source import AskedSource, Changed, ObjectSource
from mesh_model import Facts, MeshModel


class Sources:
    """A source of objects, and those that know more about what these are of."""

    def __init__(self, objects: ObjectSource, *others: AskedSource) -> None:
        self.objects = objects
        self._others = others

    @property
    def facts(self) -> Facts:
        """All that is known now."""
        facts = self.objects.laid_over(Facts())
        for each in self._others:
            facts = each.laid_over(facts)
        return facts

    def asked_by(self, model: MeshModel) -> None:
        """Tell what is served now, for sources that find out what it asks for."""
        for each in self._others:
            each.asked_by(model)

    @asynccontextmanager
    async def following(self, changed: Changed) -> AsyncIterator[None]:
        """Keep up while the block runs; `changed` is called after each change of a source."""
        async with AsyncExitStack() as stack:
            for each in (self.objects, *self._others):
                await stack.enter_async_context(each.following(changed))
            yield
