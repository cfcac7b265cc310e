"""What is refused in a Gateway, with its place, and what is accepted with a warning."""

from typing import Any

import pytest
import yaml

from istio_config.kinds.gateway._hosts import ServerHost, parse_server_host
from istio_config.kinds.gateway._kind import GATEWAY
from istio_config.kinds.metadata import Metadata
from mesh_configfile import field_name

HTTP = {"number": 80, "name": "http", "protocol": "HTTP"}
HTTPS = {"number": 443, "name": "https", "protocol": "HTTPS"}
TLS = {"number": 443, "name": "tls", "protocol": "TLS"}
SECRET = {"mode": "SIMPLE", "credentialName": "shop"}
FILES = {"serverCertificate": "/c", "privateKey": "/k"}


def read(spec: object) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the mistakes and the warnings, by the names of their fields."""
    body = GATEWAY.read(spec, (), Metadata(name="gw", namespace="shop"))  # type: ignore[arg-type]
    mistakes, warnings = body.mistakes, body.warnings
    return (
        [(field_name(path), text) for path, text in mistakes],
        [(field_name(path), text) for path, text, _ in warnings],
    )


def server(
    port: dict[str, Any] | None = None, tls: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    given: dict[str, Any] = {"port": HTTP if port is None else port, "hosts": ["a.example"]}
    if tls is not None:
        given["tls"] = tls
    return {"servers": [{**given, **fields}]}


GOOD = """
selector: {istio: ingressgateway}
servers:
- port: {number: 80, name: http, protocol: HTTP}
  hosts: ["*"]
  tls: {httpsRedirect: true}
- port: {number: 443, name: https-a, protocol: https}
  hosts: [a.example, shop/b.example, "./*.c.example", "*/d.example", "shop/*"]
  tls: {mode: SIMPLE, credentialName: a}
- port: {number: 443, name: https-b, protocol: HTTPS}
  name: named
  hosts: [e.example]
  tls:
    mode: MUTUAL
    serverCertificate: /etc/cert.pem
    privateKey: /etc/key.pem
    caCertificates: /etc/ca.pem
    caCrl: /etc/ca.crl
    subjectAltNames: [spiffe://td/ns/a/sa/b]
    verifyCertificateSpki: [NvqYIYSbgK2vCJpQhObf77vv+bQWtc5ek5RIOwPiC9A=]
    verifyCertificateHash: [e0f3c8ce5e2ea305f0701ff512e36e2e97928284a228bcf77332d33930a1b6fd]
    minProtocolVersion: TLSV1_2
    maxProtocolVersion: TLSV1_3
    cipherSuites: [ECDHE-RSA-AES128-GCM-SHA256]
    ecdhCurves: [X25519MLKEM768]
- port: {number: 8443, name: tls, protocol: TLS}
  bind: 127.0.0.1
  hosts: ["*.local"]
  tls: {mode: AUTO_PASSTHROUGH}
- port: {number: 9443, name: mesh, protocol: TLS}
  hosts: ["*.local"]
  tls: {mode: ISTIO_MUTUAL}
- port: {number: 9444, name: optional, protocol: HTTPS}
  hosts: [f.example]
  tls: {mode: OPTIONAL_MUTUAL, credentialNames: [rsa, ecdsa], caCertCredentialName: roots}
- port: {number: 0, name: socket, protocol: HTTP}
  bind: unix:///run/gw.sock
  hosts: [g.example]
- port: {number: 31400, name: mongo, protocol: MONGO}
  hosts: ["*"]
"""


def test_gateway_of_all_fields_is_accepted_without_a_word() -> None:
    assert read(yaml.safe_load(GOOD)) == ([], [])


MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({}, "servers", "at least one server"),
    ({"servers": []}, "servers", "at least one server"),
    ({"servers": [None]}, "servers[0]", "expected a mapping"),
    ({"servers": [{"hosts": ["*"]}]}, "servers[0]", "the field port is missing"),
    ({**server(), "selector": {"": "x"}}, "selector.", "label"),
    ({**server(), "selector": {"app": "*"}}, "selector.app", "wildcard"),
    (server({**HTTP, "name": ""}), "servers[0].port.name", "is missing"),
    (server({**HTTP, "number": 0}), "servers[0].port.number", "from 1 to 65535"),
    (server({**HTTP, "number": 65536}), "servers[0].port.number", "65535"),
    (server({**HTTP, "protocol": "SMTP"}), "servers[0].port.protocol", "unknown protocol"),
    (server({**HTTP, "protocol": "UDP"}), "servers[0].port.protocol", "unknown protocol"),
    (server({**HTTP, "targetPort": 8080}), "servers[0].port.targetPort", "ServiceEntries"),
    (server(hosts=[]), "servers[0].hosts", "at least one host"),
    (server(hosts=["-x"]), "servers[0].hosts[0]", "not a host name"),
    (server(hosts=["a*.example"]), "servers[0].hosts[0]", "wildcard"),
    (server(hosts=["*a.example"]), "servers[0].hosts[0]", "wildcard"),
    (server(hosts=["a.b/x.example"]), "servers[0].hosts[0]", "no namespace"),
    (server(hosts=["a/b/x.example"]), "servers[0].hosts[0]", "no namespace"),
    (server(hosts=["/x.example"]), "servers[0].hosts[0]", "no namespace"),
    (server(bind="localhost"), "servers[0].bind", "not an IP address"),
    (server({**HTTP, "number": 0}, bind="unix://run"), "servers[0].bind", "absolute path"),
    (server(bind="unix:///run/x"), "servers[0].port.number", "has no port"),
    (server(HTTPS), "servers[0].tls", "is missing"),
    (server(TLS), "servers[0].tls", "is missing"),
    (server(HTTP, SECRET), "servers[0].tls", "only httpsRedirect"),
    (server({**HTTP, "protocol": "TCP"}, SECRET), "servers[0].tls", "HTTPS and TLS"),
    (server({**HTTP, "protocol": "TCP"}, {"httpsRedirect": True}), "servers[0].tls", "HTTPS"),
    (server(HTTPS, {"mode": "SIMPLE"}), "servers[0].tls.mode", "needs a certificate"),
    (
        server(HTTPS, {**SECRET, "credentialName": "kubernetes-gateway://other/a"}),
        "servers[0].tls.credentialName",
        "not the name of a Secret",
    ),
    (server(HTTPS, {**SECRET, **FILES}), "servers[0].tls.serverCertificate", "beside"),
    (server(HTTPS, {**SECRET, "credentialNames": ["a"]}), "servers[0].tls.credentialNames", "one"),
    (
        server(HTTPS, {"mode": "SIMPLE", "serverCertificate": "/c"}),
        "servers[0].tls.privateKey",
        "is missing",
    ),
    (
        server(HTTPS, {"mode": "SIMPLE", "privateKey": "/c"}),
        "servers[0].tls.serverCertificate",
        "is missing",
    ),
    (
        server(HTTPS, {"mode": "SIMPLE", "tlsCertificates": [{"privateKey": "/c"}]}),
        "servers[0].tls.tlsCertificates[0].serverCertificate",
        "is missing",
    ),
    (server(HTTPS, {"mode": "MUTUAL", **FILES}), "servers[0].tls.caCertificates", "is missing"),
    (
        server(HTTPS, {"mode": "OPTIONAL_MUTUAL", **FILES}),
        "servers[0].tls.caCertificates",
        "is missing",
    ),
    (
        server(HTTPS, {**SECRET, "mode": "MUTUAL", "caCertificates": "/ca"}),
        "servers[0].tls.caCertificates",
        "the secret holds",
    ),
    (
        server(HTTPS, {**SECRET, "mode": "ISTIO_MUTUAL"}),
        "servers[0].tls.credentialName",
        "ISTIO_MUTUAL",
    ),
    (
        server(HTTPS, {"mode": "ISTIO_MUTUAL", "caCertificates": "/ca"}),
        "servers[0].tls.caCertificates",
        "ISTIO_MUTUAL",
    ),
    (server(HTTPS, {**SECRET, "caCrl": "/crl"}), "servers[0].tls.caCrl", "SIMPLE"),
    (
        server(HTTPS, {**SECRET, "mode": "MUTUAL", "caCrl": "/crl"}),
        "servers[0].tls.caCrl",
        "ca.crl",
    ),
    (
        server(HTTPS, {**SECRET, "minProtocolVersion": "TLSV1_3", "maxProtocolVersion": "TLSV1_2"}),
        "servers[0].tls.minProtocolVersion",
        "above",
    ),
    (
        server(HTTPS, {**SECRET, "maxProtocolVersion": "TLSV1_1"}),
        "servers[0].tls.maxProtocolVersion",
        "needs minProtocolVersion",
    ),
    (
        server(HTTPS, {**SECRET, "mode": "MUTUAL", "verifyCertificateSpki": ["abc"]}),
        "servers[0].tls.verifyCertificateSpki[0]",
        "base64",
    ),
    (
        server(HTTPS, {**SECRET, "mode": "MUTUAL", "verifyCertificateHash": ["abc"]}),
        "servers[0].tls.verifyCertificateHash[0]",
        "hexadecimal",
    ),
]


@pytest.mark.parametrize(("spec", "field", "message"), MISTAKES)
def test_mistake_is_reported_with_its_field(spec: dict[str, Any], field: str, message: str) -> None:
    mistakes, _ = read(spec)
    assert [name for name, _ in mistakes] == [field], mistakes
    assert message in mistakes[0][1]


def test_port_names_of_servers_must_differ() -> None:
    mistakes, _ = read({"servers": server()["servers"] + server()["servers"]})
    assert [name for name, _ in mistakes] == ["servers[1].port.name"]


def test_all_mistakes_of_all_servers_are_reported_at_once() -> None:
    spec = {"servers": [server(hosts=["-"])["servers"][0], server(HTTPS)["servers"][0]]}
    assert [name for name, _ in read(spec)[0]] == ["servers[0].hosts[0]", "servers[1].tls"]


WARNINGS: list[tuple[dict[str, Any], str, str]] = [
    (server(HTTPS, {**SECRET, "httpsRedirect": True}), "servers[0].tls.httpsRedirect", "HTTPS"),
    (
        server(TLS, {"mode": "PASSTHROUGH", "credentialName": "x"}),
        "servers[0].tls.credentialName",
        "PASSTHROUGH",
    ),
    (
        server(TLS, {"mode": "AUTO_PASSTHROUGH", "serverCertificate": "/c"}),
        "servers[0].tls.serverCertificate",
        "AUTO_PASSTHROUGH",
    ),
    (server(HTTPS, {**SECRET, "cipherSuites": ["X"]}), "servers[0].tls.cipherSuites[0]", "known"),
    (server(HTTPS, {**SECRET, "ecdhCurves": ["X"]}), "servers[0].tls.ecdhCurves[0]", "P-256"),
    (
        server(HTTPS, {**SECRET, "cipherSuites": ["AES128-SHA", "AES128-SHA"]}),
        "servers[0].tls.cipherSuites[1]",
        "twice",
    ),
    (
        server(HTTPS, {**SECRET, "minProtocolVersion": "TLSV1_0"}),
        "servers[0].tls.minProtocolVersion",
        "cipherSuites",
    ),
    (
        server(HTTPS, {"mode": "SIMPLE", "credentialNames": ["a", "b", "c"]}),
        "servers[0].tls.credentialNames",
        "first two",
    ),
    (
        server(HTTPS, {**SECRET, "subjectAltNames": ["a"]}),
        "servers[0].tls.subjectAltNames",
        "SIMPLE",
    ),
    (server(defaultEndpoint="127.0.0.1:80"), "servers[0].defaultEndpoint", "no effect"),
    (server(hosts=["a.example", "a.example"]), "servers[0].hosts", "twice"),
]


@pytest.mark.parametrize(("spec", "field", "message"), WARNINGS)
def test_what_is_probably_not_meant_is_accepted_and_reported(
    spec: dict[str, Any], field: str, message: str
) -> None:
    mistakes, warnings = read(spec)
    assert mistakes == []
    assert [name for name, _ in warnings] == [field], warnings
    assert message in warnings[0][1]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("A.example", ServerHost("*", "a.example")),
        ("*", ServerHost("*", "*")),
        ("./a.example", ServerHost("shop", "a.example")),
        ("*/a.example", ServerHost("*", "a.example")),
        ("other/*", ServerHost("other", "*")),
    ],
)
def test_host_of_a_server_names_the_namespaces_that_it_is_for(text: str, meant: ServerHost) -> None:
    assert parse_server_host(text, "shop") == meant
