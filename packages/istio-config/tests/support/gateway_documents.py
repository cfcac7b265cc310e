"""Documents of gateways, as YAML."""

import base64
import json
from typing import Any

from mesh_testkit.certificates import Issued

S = "s.b.svc.cluster.local"


def gateway(
    *servers: dict[str, Any], name: str = "gw", namespace: str = "b", created: str = ""
) -> str:
    return _document(
        "networking.istio.io/v1",
        "Gateway",
        name,
        namespace,
        created=created,
        spec={"selector": {"istio": "ingressgateway"}, "servers": list(servers)},
    )


def server(
    protocol: str, number: int, *hosts: str, name: str = "", **fields: Any
) -> dict[str, Any]:
    port = {"number": number, "name": name or protocol.lower(), "protocol": protocol}
    return {"port": port, "hosts": list(hosts), **fields}


def virtual_service(
    *hosts: str,
    name: str = "vs",
    namespace: str = "b",
    gateways: tuple[str, ...] = ("b/gw",),
    created: str = "",
    **routes: Any,
) -> str:
    return _document(
        "networking.istio.io/v1",
        "VirtualService",
        name,
        namespace,
        created=created,
        spec={"hosts": list(hosts), "gateways": list(gateways), **routes},
    )


def to(host: str = S, port: int = 80) -> list[dict[str, Any]]:
    return [{"destination": {"host": host, "port": {"number": port}}}]


def secret(name: str, issued: Issued, *, namespace: str = "b", roots: bytes = b"") -> str:
    values = {"tls.crt": issued.chain_pem, "tls.key": issued.key_pem}
    if roots:
        values["ca.crt"] = roots
    encoded = {key: base64.b64encode(each).decode() for key, each in values.items()}
    return _document("v1", "Secret", name, namespace, type="kubernetes.io/tls", data=encoded)


def service(
    *addresses: str, host: str = S, port: int = 8080, protocol: str = "HTTP", **fields: Any
) -> str:
    name, namespace = host.split(".")[:2]
    ports = [{"number": 80, "name": "port", "protocol": protocol, "targetPort": port}]
    return _document(
        "networking.istio.io/v1",
        "ServiceEntry",
        name,
        namespace,
        spec={
            "hosts": [host],
            "location": "MESH_INTERNAL",
            "resolution": "STATIC",
            "ports": ports,
            "endpoints": [{"address": each, **fields} for each in addresses],
        },
    )


def _document(
    version: str, kind: str, name: str, namespace: str, *, created: str = "", **fields: Any
) -> str:
    metadata = {"name": name, "namespace": namespace}
    if created:
        metadata["creationTimestamp"] = created
    whole = {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
    return f"{json.dumps(whole)}\n"
