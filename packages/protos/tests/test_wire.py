"""Field numbers are a contract with Istio: each is checked against bytes written by hand."""

from mesh_protos import CREATE_CERTIFICATE, type_urls
from mesh_protos.ca_pb2 import DESCRIPTOR as CA_FILE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse
from mesh_protos.envoy_fields_pb2 import FilterStateAfterHandshake, Scope, StatsLoggerScope
from mesh_protos.health_pb2 import HealthInformation
from mesh_protos.nds_pb2 import NameTable
from mesh_protos.proxy_config_pb2 import ProxyConfig


def test_certificate_request_has_istios_field_numbers() -> None:
    request = IstioCertificateRequest(csr="A", validity_duration=3)
    request.metadata["CertSigner"] = ""
    assert request.SerializeToString(deterministic=True) == (
        b"\x0a\x01A"  # 1: csr
        b"\x18\x03"  # 3: validity_duration
        b"\x22\x12\x0a\x10\x0a\x0aCertSigner\x12\x02\x1a\x00"  # 4: metadata
    )


def test_certificate_response_has_istios_field_numbers() -> None:
    assert IstioCertificateResponse.FromString(b"\x0a\x01L\x0a\x01R").cert_chain == ["L", "R"]


def test_method_path_names_the_service_in_the_descriptor() -> None:
    service = CA_FILE.services_by_name["IstioCertificateService"]
    method = service.methods_by_name["CreateCertificate"]
    assert f"/{service.full_name}/{method.name}" == CREATE_CERTIFICATE


def test_name_table_has_istios_field_numbers() -> None:
    info = b"\x0a\x07" + b"1.2.3.4" + b"\x12\x01K" + b"\x1a\x01s" + b"\x22\x01n" + b"\x2a\x01a"
    entry = b"\x0a\x01h" + b"\x12" + bytes([len(info)]) + info
    table = NameTable.FromString(b"\x0a" + bytes([len(entry)]) + entry)
    found = table.table["h"]
    assert (list(found.ips), found.registry, found.shortname, found.namespace) == (
        ["1.2.3.4"],
        "K",
        "s",
        "n",
    )
    assert list(found.alt_hosts) == ["a"]


def test_proxy_config_keeps_fields_it_does_not_name() -> None:
    anchors_and_drain_duration = b"\x92\x02\x01P" + b"\x22\x02\x08\x2d"
    config = ProxyConfig.FromString(anchors_and_drain_duration)
    assert list(config.ca_certificates_pem) == ["P"]
    assert b"\x22\x02\x08\x2d" in config.SerializeToString()


def test_proxy_config_has_istios_field_numbers() -> None:
    config = ProxyConfig(proxy_metadata={"A": "b"})
    config.concurrency.value = 0
    assert config.SerializeToString(deterministic=True) == (
        b"\x82\x01\x00"  # 16: concurrency, a message, by which 0 is told from nothing
        b"\xc2\x01\x06\x0a\x01A\x12\x01b"  # 24: proxy_metadata
    )


def test_type_urls_of_our_messages_are_their_full_names() -> None:
    for message, url in (
        (NameTable, type_urls.NAME_TABLE),
        (HealthInformation, type_urls.HEALTH_INFORMATION),
        (ProxyConfig, type_urls.PROXY_CONFIG),
    ):
        assert url == f"type.googleapis.com/{message.DESCRIPTOR.full_name}"


def test_type_urls_of_envoys_messages_exist_in_xds_protos() -> None:
    from envoy.config.cluster.v3.cluster_pb2 import Cluster
    from envoy.config.core.v3.extension_pb2 import TypedExtensionConfig
    from envoy.config.endpoint.v3.endpoint_pb2 import ClusterLoadAssignment
    from envoy.config.listener.v3.listener_pb2 import Listener
    from envoy.config.route.v3.route_pb2 import RouteConfiguration
    from envoy.extensions.transport_sockets.tls.v3.secret_pb2 import Secret

    for message, url in (
        (Cluster, type_urls.CLUSTER),
        (ClusterLoadAssignment, type_urls.ENDPOINT),
        (Listener, type_urls.LISTENER),
        (RouteConfiguration, type_urls.ROUTE),
        (Secret, type_urls.SECRET),
        (TypedExtensionConfig, type_urls.EXTENSION_CONFIG),
    ):
        assert url == f"type.googleapis.com/{message.DESCRIPTOR.full_name}"


def test_the_scope_of_statistics_has_envoys_field_numbers() -> None:
    scope = Scope(enable_eviction=True, prefix="p", sharing_name="s")
    scope.max_counters.value = 1
    scope.max_gauges.value = 2
    scope.max_histograms.value = 3
    assert StatsLoggerScope(stats_scope=scope).SerializeToString(deterministic=True) == (
        b"\x32\x14"  # 6: stats_scope
        b"\x0a\x02\x08\x01\x12\x02\x08\x02\x1a\x02\x08\x03"  # 1 to 3: the bounds
        b"\x20\x01\x2a\x01p\x32\x01s"  # 4: enable_eviction, 5: prefix, 6: sharing_name
    )


def test_values_after_a_handshake_have_envoys_field_number() -> None:
    after = FilterStateAfterHandshake(on_downstream_tls_handshake=[b"a"])
    assert after.SerializeToString(deterministic=True) == b"\x12\x01a"
