"""Any bytes as a resource for an Envoy that has few extensions: adapted, or left as it is."""

from __future__ import annotations

from collections.abc import Iterator

from envoy.config.listener.v3 import listener_pb2
from envoy.config.rbac.v3 import rbac_pb2
from envoy.extensions.filters.http.rbac.v3 import rbac_pb2 as http_rbac
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2 as hcm,
)
from google.protobuf.any_pb2 import Any

from xds_adapter import Extensions, adapt

_HCM = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_NAME = "envoy.filters.network.http_connection_manager"
EXTENSIONS = Extensions(
    types=frozenset({_HCM, "envoy.extensions.filters.http.rbac.v3.RBAC"}),
    by_category={"envoy.filters.network": {_NAME: (_HCM,)}},
)


def check(data: bytes) -> None:
    """What was adapted once needs no change again."""
    adapted, changes = adapt(EXTENSIONS, data)
    if not changes:
        assert adapted == data
        return
    again, further = adapt(EXTENSIONS, adapted)
    assert again == adapted, further


def originals() -> Iterator[bytes]:
    """A listener with filters of Istio's own, and one that reads what they leave."""
    manager = hcm.HttpConnectionManager(stat_prefix="x")
    manager.http_filters.add(
        name="istio.metadata_exchange"
    ).typed_config.type_url = "type.googleapis.com/io.istio.http.peer_metadata.Config"
    policy = rbac_pb2.Policy(
        permissions=[rbac_pb2.Permission(any=True)], principals=[rbac_pb2.Principal(any=True)]
    )
    rules = http_rbac.RBAC(rules=rbac_pb2.RBAC(policies={"a": policy}))
    manager.http_filters.add(name="rbac").typed_config.Pack(rules)
    manager.http_filters.add(name="envoy.filters.http.router")
    listener = listener_pb2.Listener(name="l")
    chain = listener.filter_chains.add()
    chain.filters.add(
        name="istio_authn"
    ).typed_config.type_url = (
        "type.googleapis.com/istio.envoy.config.filter.http.authn.v2alpha1.FilterConfig"
    )
    chain.filters.add(name=_NAME).typed_config.Pack(manager)
    packed = Any()
    packed.Pack(listener)
    yield packed.SerializeToString()
