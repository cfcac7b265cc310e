"""The part of a client on which the endpoints of a service depend; often there is none."""

from typing import NamedTuple

from envoy_config.plan._client import NOWHERE, Client
from envoy_config.plan._locality import depends_on_location, preference
from envoy_config.plan._traffic_policy import effective_policy
from envoy_config.plan.endpoints._network_gateways import depends_on_network
from mesh_model import MeshModel, Rule, Service


class Dependence(NamedTuple):
    """The parts of a client that count."""

    on_location: bool = False
    labels: frozenset[str] = frozenset()
    """The keys of those labels that count."""


def client_dependence(service: Service, rule: Rule | None, model: MeshModel) -> Dependence:
    """Find what the endpoints of a service, with this rule, depend on."""
    on_location = service.is_node_local or depends_on_network(service, model.networks)
    labels: set[str] = set()
    subsets = ("", *rule.subsets) if rule is not None else ("",)
    for port in service.ports:
        for subset in subsets:
            policy = effective_policy(rule, port.number, subset, model)
            wanted = preference(service, policy, model)
            on_location = on_location or depends_on_location(wanted)
            labels |= {each.partition("=")[0] for each in wanted.failover_priority}
    return Dependence(on_location, frozenset(labels))


def reduced(client: Client, dependence: Dependence) -> Client:
    """Return the client without what does not count."""
    return client._replace(
        location=client.location if dependence.on_location else NOWHERE,
        labels=tuple(pair for pair in client.labels if pair[0] in dependence.labels),
    )
