"""The listeners of a gateway are counted after each change, and again if Envoy did not answer."""

from collections.abc import Mapping

from envoy_supervisor import JSON, AdminError
from mesh_agent.readiness._gateway import GatewayListeners
from mesh_lifecycle import in_background
from mesh_testkit import until


class FakeEnvoy:
    """An Envoy with one listener, whose admin interface refuses the first questions."""

    def __init__(self, refusals: int) -> None:
        self._refusals = refusals

    @property
    def admin(self) -> "FakeEnvoy":
        return self

    async def config_dump(self, query: str, /) -> Mapping[str, JSON]:
        assert "dynamic_listeners" in query
        if self._refusals:
            self._refusals -= 1
            raise AdminError("connection refused")
        return {"configs": [{"name": "http", "active_state": {}}]}


async def test_listeners_are_counted_again_after_a_question_that_failed() -> None:
    listeners = GatewayListeners(FakeEnvoy(refusals=1))
    async with in_background(listeners.follow(), name="gateway listeners"):
        listeners.listeners_changed()
        await until(lambda: listeners.count == 1, what="the listener to be counted")
    assert listeners.trouble is None
