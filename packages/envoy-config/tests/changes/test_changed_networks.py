"""A change of networks."""

from envoy_config.changes import difference
from mesh_objects import service, slice_of
from network_objects import gateway_service, model


def test_a_change_of_networks_concerns_every_proxy() -> None:
    before = model(service("web"), slice_of("web", "10.0.0.1"))
    after = model(service("web"), slice_of("web", "10.0.0.1"), gateway_service("192.0.2.2"))

    request = difference(before, after)

    assert request is not None
    assert (request.reasons, request.configs_updated) == (("MeshNetworks",), frozenset())
