"""The field numbers by which places are found, against Envoy's own descriptors."""

from __future__ import annotations

import importlib

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor

from xds_adapter._extension_fields import (
    EXTENSION_RESOURCE,
    INSIDE,
    PER_ROUTE,
    RESOURCES,
    WRAPPER,
    ExtensionField,
)

for _module in (
    "envoy.config.cluster.v3.cluster_pb2",
    "envoy.config.listener.v3.listener_pb2",
    "envoy.config.route.v3.route_pb2",
    "envoy.config.route.v3.scoped_route_pb2",
    "envoy.config.trace.v3.http_tracer_pb2",
    "envoy.extensions.access_loggers.file.v3.file_pb2",
    "envoy.extensions.access_loggers.stream.v3.stream_pb2",
    "envoy.extensions.filters.http.router.v3.router_pb2",
    "envoy.extensions.filters.network.http_connection_manager.v3.http_connection_manager_pb2",
    "envoy.extensions.filters.network.tcp_proxy.v3.tcp_proxy_pb2",
    "envoy.extensions.transport_sockets.tls.v3.tls_pb2",
    "envoy.extensions.upstreams.http.v3.http_protocol_options_pb2",
    "envoy.service.discovery.v3.discovery_pb2",
):
    importlib.import_module(_module)

ANY = "google.protobuf.Any"


def descriptor(name: str) -> Descriptor:
    return descriptor_pool.Default().FindMessageTypeByName(name)


def type_of(message: Descriptor, number: int) -> Descriptor:
    found = message.fields_by_number[number].message_type
    assert found is not None
    return found


def check(field: ExtensionField, message: Descriptor) -> None:
    fields = message.fields_by_number
    assert type_of(message, field.config).full_name == ANY
    assert fields[field.name].name in {"name", "key"}
    if field.discovery:
        expected = "envoy.config.core.v3.ExtensionConfigSource"
        assert type_of(message, field.discovery).full_name == expected
    if field.optional:
        assert fields[field.optional].name == "is_optional"


@pytest.mark.parametrize("kind", sorted(INSIDE))
def test_every_place_is_where_envoy_has_it(kind: str) -> None:
    message = descriptor(kind)
    for number, content in INSIDE[kind].items():
        found = type_of(message, number)
        if isinstance(content, str):
            assert found.full_name == content
            assert content in INSIDE
        else:
            if content.message:
                assert found.full_name == content.message
            else:
                assert found.GetOptions().map_entry
            check(content, found)


def test_resources_are_types_that_are_known() -> None:
    for name in (*RESOURCES, WRAPPER):
        descriptor(name)
    check(EXTENSION_RESOURCE, descriptor(EXTENSION_RESOURCE.message))
    assert type_of(descriptor(PER_ROUTE), 1).full_name == ANY
