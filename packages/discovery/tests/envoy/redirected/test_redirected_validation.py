"""Envoy takes every set of listeners and clusters that redirected proxies can have."""

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capturing_services import entry, peer_authentication
from envoy_config import PushContext
from mesh_model import MeshModel
from planes import bootstrap
from proxies import as_json, proxy
from xds_server import Generated

_NAMES = ("http", "http2", "grpc", "grpc-web", "tcp", "tls", "https", "mongo", "redis", "x", "udp")
_ADDRESSES = ("", "addresses: [10.9.0.1]", "addresses: [10.9.0.2, fd99::2]", "addresses: [fd99::3]")
_RANGES = ("addresses: [10.8.0.0/16, 10.9.9.9]", "addresses: [fd88::/32]")


def _port(number: int, name: str, more: str = "") -> str:
    """Return a port that declares the protocol in its name; x declares none."""
    protocol = "" if name == "x" else f", protocol: {name}"
    return f"{{number: {number}, name: {name}{protocol}{more}}}"


def services() -> list[str]:
    """Return services of every protocol at every sort of address, several at each port."""
    found = []
    for index, address in enumerate((*_ADDRESSES, *_RANGES)):
        ports = ", ".join(
            _port(7000 + number, name, f", targetPort: {8000 + number}")
            for number, name in enumerate(_NAMES)
        )
        shifted = ", ".join(
            _port(7000 + number, _NAMES[number - index]) for number in range(len(_NAMES))
        )
        for name, each in (("a", ports), ("b", shifted)):
            found.append(
                entry(
                    f"{name}{index}",
                    f"""\
                    hosts: [{name}{index}.example]
                    resolution: STATIC
                    {address}
                    ports: [{each}]
                    endpoints: [{{address: 10.77.0.1, serviceAccount: s}}]
                    """,
                )
            )
    found.append(
        entry(
            "own",
            """\
            hosts: ["*.own.example"]
            resolution: NONE
            ports:
            - {number: 443, name: tls, protocol: TLS}
            - {number: 15021, name: http, protocol: HTTP}
            """,
        )
    )
    return found


SIDECAR = """\
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: b}
spec:
  ingress:
  - port: {number: 9080, name: http, protocol: HTTP}
    captureMode: NONE
    bind: 127.0.0.1
    defaultEndpoint: unix:///run/app.sock
  - port: {number: 9081, name: x}
    captureMode: NONE
    defaultEndpoint: 127.0.0.1:9082
  - port: {number: 9083, name: mongo, protocol: MONGO}
    defaultEndpoint: 0.0.0.0:9084
  - port: {number: 9085, name: x-2}
  egress:
  - port: {number: 7000, name: http, protocol: HTTP}
    captureMode: NONE
    hosts: [b/*]
  - port: {number: 7005, name: tls, protocol: TLS}
    bind: 10.7.7.7
    hosts: [b/*]
  - port: {number: 3128, protocol: HTTP_PROXY, name: proxy}
    bind: 127.0.0.1
    captureMode: NONE
    hosts: [b/*]
  - port: {number: 0, protocol: HTTP, name: http-socket}
    bind: unix:///run/egress.sock
    hosts: [b/*]
  - hosts: ['*/*']
"""
POLICIES = [
    peer_authentication("STRICT"),
    peer_authentication("DISABLE"),
    peer_authentication("PERMISSIVE")
    + "---\n"
    + peer_authentication(
        "STRICT",
        ports="8000: {mode: DISABLE}, 8004: {mode: PERMISSIVE}, 9999: {mode: DISABLE}",
        app="s",
    ),
    SIDECAR,
]
_OF_NODES: tuple[dict[str, str], ...] = (
    {},
    {"HTTP10": "1", "IDLE_TIMEOUT": "90s", "INBOUND_LISTENER_EXACT_BALANCE": "true"},
)
MESH = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  accessLogFile: /dev/stdout
  protocolDetectionTimeout: 5s
  outboundTrafficPolicy: {mode: %s}
"""


@pytest.mark.parametrize("policy", POLICIES, ids=["strict", "disable", "by port", "sidecar"])
async def test_envoy_takes_what_redirected_proxies_are_sent(
    policy: str,
    model_of: Callable[..., MeshModel],
    envoy_binary: Path,
    tmp_path: Path,
) -> None:
    policy_of_mesh = "REGISTRY_ONLY" if policy is SIDECAR else "ALLOW_ANY_DYNAMIC_DNS"
    context = PushContext(model_of(*services(), policy, MESH % policy_of_mesh))
    addresses = ("10.77.0.1", "fd77::1", "10.77.0.1,fd77::1")
    for number, (mode, own) in enumerate(itertools.product(("REDIRECT", "TPROXY"), addresses)):
        sidecar = proxy(
            own.partition(",")[0],
            NAMESPACE="b",
            LABELS={"app": "s"},
            INTERCEPTION_MODE=mode,
            INSTANCE_IPS=own,
            DNS_CAPTURE=str(number % 2 == 0),
            **_OF_NODES[number % 2],
        )
        listeners = context.listeners(sidecar)
        assert len(listeners.resources) > 20
        config = bootstrap({"id": "x", "cluster": "x"}, admin="/x", xds="/x", sds=tmp_path / "s")
        config.pop("admin")
        for cluster in config["static_resources"]["clusters"]:
            cluster["connect_timeout"] = "1s"
        config["static_resources"]["clusters"] += unpacked(context.clusters(sidecar))
        config["static_resources"]["listeners"] = unpacked(listeners)
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(config))
        process = await asyncio.create_subprocess_exec(
            *(str(envoy_binary), "--mode", "validate", "--config-path", str(file)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()


def unpacked(generated: Generated) -> list[Any]:
    """Return resources as a configuration file has them."""
    return [
        {key: value for key, value in each.items() if key != "@type"} for each in as_json(generated)
    ]
