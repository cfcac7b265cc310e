"""The listeners of routers in full."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from envoy_config import Proxy, PushContext
from gateway_documents import S, gateway, server, service, to, virtual_service
from mesh_model import MeshModel
from proxies import as_json, proxy_of
from xds_server import Node

FILES = {"serverCertificate": "/c", "privateKey": "/k", "caCertificates": "/ca"}
SPKI = "NvqYIYSbgK2vCJpQhObf77vv+bQWtc5ek5RIOwPiC9A="
HASH = "e0f3c8ce5e2ea305f0701ff512e36e2e97928284a228bcf77332d33930a1b6fd"
Build = Callable[..., MeshModel]


def router(address: str = "10.0.0.9", **metadata: Any) -> Proxy:
    return proxy_of(
        Node(
            id=f"router~{address}~gw.b~b.svc.cluster.local",
            cluster="gw.b",
            metadata={"NAMESPACE": "b", "LABELS": {"istio": "ingressgateway"}, **metadata},
        )
    )


def mesh_config(**spec: Any) -> str:
    whole = {"apiVersion": "mesh.istio.io/v1alpha1", "kind": "MeshConfig", "spec": spec}
    return f"{json.dumps(whole)}\n"


def listeners(model: MeshModel, proxy: Proxy | None = None) -> dict[str, Any]:
    resources = as_json(PushContext(model).listeners(proxy or router()))
    return {each["name"]: each for each in resources}


def tls_of(model: MeshModel) -> dict[str, Any]:
    """Return the TLS settings of the one chain of the one listener."""
    (listener,) = listeners(model).values()
    (chain,) = listener["filter_chains"]
    found: dict[str, Any] = chain["transport_socket"]["typed_config"]
    return found


def https(**tls: Any) -> str:
    return gateway(server("HTTPS", 8443, "a.example", tls=tls))


def secrets(context: dict[str, Any]) -> list[str]:
    common = context["common_tls_context"]
    return [each["name"] for each in common["tls_certificate_sds_secret_configs"]]


def source(context: dict[str, Any]) -> set[str]:
    common = context["common_tls_context"]
    (sds,) = common["tls_certificate_sds_secret_configs"]
    return set(sds["sds_config"])


def validation(context: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    combined = context["common_tls_context"]["combined_validation_context"]
    name: str = combined["validation_context_sds_secret_config"]["name"]
    return name, combined.get("default_validation_context", {})


def test_certificate_by_name_comes_with_the_configuration_and_one_in_files_from_the_agent(
    model_of: Build,
) -> None:
    by_name = tls_of(model_of(https(mode="SIMPLE", credentialName="shop")))
    assert secrets(by_name) == ["kubernetes://shop"]
    assert "ads" in source(by_name)
    assert by_name["require_client_certificate"] is False
    assert by_name["common_tls_context"]["alpn_protocols"] == ["h2", "http/1.1"]

    by_file = tls_of(model_of(https(mode="SIMPLE", serverCertificate="/c", privateKey="/k")))
    assert secrets(by_file) == ["file-cert:/c~/k"]
    assert "api_config_source" in source(by_file)

    several = [{"serverCertificate": f"/c{n}", "privateKey": f"/k{n}"} for n in range(3)]
    assert secrets(tls_of(model_of(https(mode="SIMPLE", tlsCertificates=several)))) == [
        "file-cert:/c0~/k0",
        "file-cert:/c1~/k1",
    ]


@pytest.mark.parametrize(
    ("tls", "roots", "required"),
    [
        ({"mode": "MUTUAL", "credentialName": "a"}, "kubernetes://a-cacert", "yes"),
        ({"mode": "OPTIONAL_MUTUAL", "credentialName": "a"}, "kubernetes://a-cacert", "no"),
        ({"mode": "MUTUAL", **FILES}, "file-root:/ca", "yes"),
        (
            {"mode": "MUTUAL", "credentialNames": ["a", "b"], "caCertCredentialName": "roots"},
            "kubernetes://roots-cacert",
            "yes",
        ),
        ({"mode": "ISTIO_MUTUAL"}, "ROOTCA", "yes"),
    ],
)
def test_clients_are_checked_by_the_roots_of_the_mode(
    tls: dict[str, Any], roots: str, required: str, model_of: Build
) -> None:
    context = tls_of(model_of(https(**tls)))
    assert validation(context)[0] == roots
    assert context["require_client_certificate"] is (required == "yes")


def test_clients_of_the_mesh_must_be_of_its_trust_domains_or_have_the_names_given(
    model_of: Build,
) -> None:
    mesh = mesh_config(trustDomainAliases=["old.example"])
    _, rules = validation(tls_of(model_of(https(mode="ISTIO_MUTUAL"), mesh)))
    assert rules["match_typed_subject_alt_names"] == [
        {"san_type": "URI", "matcher": {"prefix": "spiffe://cluster.local/"}},
        {"san_type": "URI", "matcher": {"prefix": "spiffe://old.example/"}},
    ]
    names = ["spiffe://td/x", "a.example", "10.0.0.1", "me@a.example"]
    _, rules = validation(tls_of(model_of(https(mode="ISTIO_MUTUAL", subjectAltNames=names))))
    assert rules["match_typed_subject_alt_names"] == [
        {"san_type": kind, "matcher": {"exact": name}}
        for kind, name in zip(("URI", "DNS", "IP_ADDRESS", "EMAIL"), names, strict=True)
    ]


def test_versions_ciphers_and_hashes_are_as_given_or_the_meshs(model_of: Build) -> None:
    mesh = mesh_config(
        tlsDefaults={
            "minProtocolVersion": "TLSV1_3",
            "cipherSuites": ["ECDHE-RSA-AES256-GCM-SHA384"],
            "ecdhCurves": ["P-256"],
        }
    )
    context = tls_of(model_of(https(mode="SIMPLE", credentialName="a"), mesh))
    assert context["common_tls_context"]["tls_params"] == {
        "tls_minimum_protocol_version": "TLSv1_3",
        "cipher_suites": ["ECDHE-RSA-AES256-GCM-SHA384"],
        "ecdh_curves": ["P-256"],
    }
    context = tls_of(
        model_of(
            https(
                mode="MUTUAL",
                caCrl="/crl",
                minProtocolVersion="TLSV1_2",
                maxProtocolVersion="TLSV1_3",
                cipherSuites=["NONSENSE", "AES128-SHA", "AES128-SHA"],
                ecdhCurves=["NONSENSE", "X25519", "X25519"],
                verifyCertificateSpki=[SPKI],
                verifyCertificateHash=[HASH],
                insecureSkipVerify=True,
                **FILES,
            )
        )
    )
    assert context["common_tls_context"]["tls_params"] == {
        "tls_minimum_protocol_version": "TLSv1_2",
        "tls_maximum_protocol_version": "TLSv1_3",
        "cipher_suites": ["AES128-SHA"],
        "ecdh_curves": ["X25519"],
    }
    assert validation(context)[1] == {
        "verify_certificate_spki": [SPKI],
        "verify_certificate_hash": [HASH],
        "crl": {"filename": "/crl"},
        "trust_chain_verification": "ACCEPT_UNTRUSTED",
    }


def test_requests_of_gateways_are_taken_as_istios_gateways_take_them(model_of: Build) -> None:
    (listener,) = listeners(model_of(gateway(server("HTTP", 8080, "*")))).values()
    assert (listener["name"], listener["traffic_direction"]) == ("0.0.0.0_8080", "OUTBOUND")
    assert "listener_filters" not in listener
    (chain,) = listener["filter_chains"]
    manager = chain["filters"][0]["typed_config"]
    assert manager["stat_prefix"] == "outbound_0.0.0.0_8080"
    assert manager["rds"]["route_config_name"] == "http.8080"
    assert manager["server_name"] == "istio-envoy"
    assert manager["use_remote_address"] is True
    assert manager["forward_client_cert_details"] == "SANITIZE_SET"
    assert manager["set_current_client_cert_details"] == {
        "subject": True,
        "cert": True,
        "dns": True,
        "uri": True,
    }
    assert [each["typed_config"]["@type"].split(".")[-3] for each in manager["http_filters"]] == [
        "grpc_stats",
        "set_filter_state",
        "fault",
        "cors",
        "router",
    ]


def test_proxies_before_a_gateway_are_believed_as_the_topology_says(model_of: Build) -> None:
    mesh = mesh_config(
        defaultConfig={
            "gatewayTopology": {
                "numTrustedProxies": 2,
                "forwardClientCertDetails": "ALWAYS_FORWARD_ONLY",
                "proxyProtocol": {},
            }
        }
    )
    found = listeners(model_of(gateway(server("GRPC-WEB", 8080, "*")), mesh))
    listener = found["0.0.0.0_8080"]
    assert [each["name"] for each in listener["listener_filters"]] == [
        "envoy.filters.listener.proxy_protocol"
    ]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    assert manager["xff_num_trusted_hops"] == 2
    assert manager["forward_client_cert_details"] == "ALWAYS_FORWARD_ONLY"
    assert "set_current_client_cert_details" not in manager
    assert manager["http_filters"][0]["name"] == "envoy.filters.http.grpc_web"


def test_router_listens_on_all_its_addresses_or_where_its_node_or_the_server_says(
    model_of: Build,
) -> None:
    model = model_of(
        gateway(
            server("HTTP", 8080, "*"),
            server("HTTP", 8080, "*", name="own", bind="10.0.0.8"),
            server("HTTP", 0, "*", name="socket", bind="unix:///run/gw"),
        )
    )
    names = ["10.0.0.8_8080", "unix:///run/gw"]
    found = listeners(model)
    assert list(found) == ["0.0.0.0_8080", *names]
    assert found["unix:///run/gw"]["address"] == {"pipe": {"path": "/run/gw"}}
    # Beside all addresses one of them can be bound only so.
    assert found["10.0.0.8_8080"]["enable_reuse_port"] is True
    assert found["unix:///run/gw"]["enable_reuse_port"] is False
    assert list(listeners(model, router("fd00::9"))) == ["::_8080", *names]
    both = listeners(model, router(INSTANCE_IPS="10.0.0.9,fd00::9"))["0.0.0.0_8080"]
    assert both["additional_addresses"][0]["address"]["socket_address"]["address"] == "::"
    own = listeners(model, router(OUTBOUND_BIND_ADDRESS="127.9.9.9"))
    assert list(own) == ["127.9.9.9_8080", *names]


def test_router_of_a_service_listens_on_its_target_port(model_of: Build) -> None:
    model = model_of(service("10.0.0.9", port=8080), gateway(server("HTTP", 80, "*")))
    assert list(listeners(model)) == ["0.0.0.0_8080"]
    assert list(listeners(model, router("10.0.0.7"))) == ["0.0.0.0_80"]
    assert list(listeners(model, router("10.0.0.7", UNPRIVILEGED_POD="true"))) == []


def test_connections_of_each_server_are_distinguished(model_of: Build) -> None:
    secure = {"mode": "SIMPLE", "credentialName": "a"}
    model = model_of(
        service("10.0.0.1", protocol="TCP"),
        gateway(
            server("HTTPS", 8443, "b.example", "a.example", name="named", tls=secure),
            server("HTTPS", 8443, "*", name="all", tls=secure),
            server("TLS", 8443, "c.example", name="on", tls={"mode": "PASSTHROUGH"}),
            server("TLS", 8443, "*.local", name="mesh", tls={"mode": "AUTO_PASSTHROUGH"}),
            server("HTTP", 8443, "*", name="plain"),
        ),
        virtual_service("c.example", tls=[{"match": [{"sniHosts": ["c.example"]}], "route": to()}]),
    )
    (listener,) = listeners(model).values()
    assert [each.get("filter_chain_match", {}) for each in listener["filter_chains"]] == [
        {"server_names": ["a.example", "b.example"]},
        {},
        {"server_names": ["c.example"]},
        {
            "server_names": [f"outbound_.80_._.{S}"],
            "application_protocols": [
                "istio",
                "istio-peer-exchange",
                "istio-http/1.0",
                "istio-http/1.1",
                "istio-h2",
            ],
        },
        {"transport_protocol": "raw_buffer"},
    ]
    assert ["transport_socket" in each for each in listener["filter_chains"]] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert [each["name"] for each in listener["listener_filters"]] == [
        "envoy.filters.listener.tls_inspector"
    ]
