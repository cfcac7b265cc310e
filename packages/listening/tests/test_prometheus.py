"""What a scrape tells of the ports."""

from prometheus_client import CollectorRegistry

from callers import Echo, unhurried
from mesh_listening import ConnectionLimits, Reason, accepting, listening_on
from mesh_listening.prometheus import PortMetrics
from mesh_testkit import idle_connections, some_closed

ACCEPTED = "mesh_listener_connections_accepted_total"
REFUSED = "mesh_listener_connections_refused_total"
OPEN = "mesh_listener_connections_open"


async def test_each_port_exports_accepted_refused_and_open_connections() -> None:
    registry, metrics = CollectorRegistry(auto_describe=True), PortMetrics()
    registry.register(metrics)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    limits = unhurried(ConnectionLimits(port=40, peer=10))
    with listening_on("127.0.0.1", 0) as sockets, listening_on("127.0.0.1", 0) as quiet:
        address = sockets[0].getsockname()
        async with (
            accepting(sockets, Echo, name="one", limits=limits) as port,
            accepting(quiet, Echo, name="two", limits=limits) as other,
        ):
            metrics.add(port, other)
            with idle_connections(address, 30) as held:
                await some_closed(held, 20)
                assert value(ACCEPTED, listener="one") == 30
                assert value(REFUSED, listener="one", reason="peer_full") == 20
                assert value(OPEN, listener="one") == 10
                assert value(OPEN, listener="two") == 0
            reasons = {
                sample.labels["reason"]
                for family in registry.collect()
                for sample in family.samples
                if sample.name == REFUSED and sample.labels["listener"] == "two"
            }
    assert reasons == {reason.label for reason in Reason}
