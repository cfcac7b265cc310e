"""Host names of network gateways are looked up again and again, and answers are kept."""

import asyncio
from collections.abc import Iterable

from mesh_discovery.sources._gateway_names import INTERVAL_S, GatewayNames
from mesh_lifecycle.testing import ManualClock


class Resolver:
    """Answers with what the test says; a name without an answer can't be found."""

    def __init__(self) -> None:
        self.answers: dict[str, list[str]] = {}
        self.asked: list[str] = []

    async def __call__(self, name: str) -> Iterable[str]:
        self.asked.append(name)
        if name not in self.answers:
            raise OSError(f"{name} is not known")
        return self.answers[name]


async def test_names_are_looked_up_when_they_are_wanted_and_again_after_a_while() -> None:
    resolver, clock, changes = Resolver(), ManualClock(), asyncio.Queue[None]()
    names = GatewayNames(resolve=resolver, clock=clock)
    resolver.answers = {
        "a.test": ["192.0.2.2", "192.0.2.1", "192.0.2.2"],
        "b.test": ["2001:db8::1"],
    }

    async with names.following(lambda: changes.put_nowait(None)):
        names.want(frozenset({"a.test"}))
        await changes.get()
        assert names.addresses == {"a.test": ("192.0.2.1", "192.0.2.2")}

        names.want(frozenset({"a.test", "b.test"}))
        await changes.get()
        assert names.addresses["b.test"] == ("2001:db8::1",)

        del resolver.answers["a.test"]
        resolver.answers["b.test"] = ["2001:db8::2"]
        await clock.advance(INTERVAL_S)
        await changes.get()
        assert names.addresses == {
            "a.test": ("192.0.2.1", "192.0.2.2"),
            "b.test": ("2001:db8::2",),
        }

        names.want(frozenset({"b.test"}))
        await clock.advance(INTERVAL_S)
        await changes.get()
        assert set(names.addresses) == {"b.test"}
    assert changes.empty()


async def test_nothing_is_looked_up_where_no_gateway_has_a_name() -> None:
    resolver, clock = Resolver(), ManualClock()
    names = GatewayNames(resolve=resolver, clock=clock)

    async with names.following(lambda: None):
        names.want(frozenset())
        await clock.advance(10 * INTERVAL_S)

    assert resolver.asked == []
