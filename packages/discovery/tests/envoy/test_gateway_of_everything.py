"""Envoy takes the listeners of a gateway that has a server of every sort."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from drawn_meshes import envoy_says
from envoy_config import PushContext
from gateway_documents import gateway, server, service, to, virtual_service
from mesh_model import MeshModel
from proxies import proxy_of
from xds_server import Node

FILES = {"serverCertificate": "/c", "privateKey": "/k", "caCertificates": "/ca"}
SPKI = "NvqYIYSbgK2vCJpQhObf77vv+bQWtc5ek5RIOwPiC9A="
HASH = "e0f3c8ce5e2ea305f0701ff512e36e2e97928284a228bcf77332d33930a1b6fd"
Build = Callable[..., MeshModel]
ROUTER = Node(
    id="router~10.0.0.9~gw.b~b.svc.cluster.local",
    cluster="gw.b",
    metadata={"NAMESPACE": "b", "LABELS": {"istio": "ingressgateway"}},
)


def test_envoy_takes_a_gateway_of_everything(
    model_of: Build, envoy_binary: Path, tmp_path: Path
) -> None:
    secure = {"credentialName": "a"}
    modes: dict[str, dict[str, Any]] = {
        "SIMPLE": {"mode": "SIMPLE", **secure, "cipherSuites": ["AES128-SHA"]},
        "MUTUAL": {
            "mode": "MUTUAL",
            **secure,
            "verifyCertificateSpki": [SPKI],
            "verifyCertificateHash": [HASH],
            "subjectAltNames": ["a.example", "spiffe://td/x", "10.0.0.1", "a@b.c"],
        },
        "OPTIONAL-MUTUAL": {"mode": "OPTIONAL_MUTUAL", **FILES, "insecureSkipVerify": True},
        "ISTIO-MUTUAL": {"mode": "ISTIO_MUTUAL"},
    }
    shares = [{**to()[0], "weight": 1}, {**to("t.b.svc.cluster.local")[0], "weight": 2}]
    model = model_of(
        service("10.0.0.1", protocol="TCP"),
        service("10.0.0.2", host="t.b.svc.cluster.local"),
        gateway(
            server("GRPC-WEB", 8080, "*", tls={"httpsRedirect": True}),
            server("HTTP", 8080, "*", name="bound", bind="127.0.0.1"),
            server("HTTP", 0, "*", name="socket", bind=f"unix://{tmp_path}/gw.sock"),
            *(
                server("HTTPS", 8443, f"{mode.lower()}.example", name=mode, tls=tls)
                for mode, tls in modes.items()
            ),
            server("TLS", 8443, "*.pass.example", name="pass", tls={"mode": "PASSTHROUGH"}),
            server("TLS", 8443, "*.local", name="auto", tls={"mode": "AUTO_PASSTHROUGH"}),
            server("HTTP", 8443, "*", name="plain"),
            server("TLS", 9443, "*", name="ended", tls={"mode": "SIMPLE", **secure}),
            server("TCP", 9000, "*"),
        ),
        virtual_service(
            "a.pass.example",
            tls=[{"match": [{"sniHosts": ["a.pass.example"]}], "route": to()}],
            tcp=[{"route": shares}],
            http=[{"route": to()}],
        ),
    )
    context = PushContext(model)
    assert len(context.listeners(proxy_of(ROUTER)).resources) == 6
    assert envoy_says(envoy_binary, context, ROUTER) == ""
