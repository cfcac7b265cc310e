"""Any text as the probes of a pod and of a ProxyConfig, and any bytes as a health reply."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

from mesh_probes import ProbeConfigError, parse_kubernetes_probers, parse_readiness_probe
from mesh_probes._errors import CheckFailed
from mesh_probes._outcome import quoted
from mesh_probes.checking._grpc import decode_response


def check(data: bytes) -> None:
    """Each is read, or refused with the one error that its callers know."""
    kind, content = data[:1], data[1:]
    if kind == b"g":
        with suppress(CheckFailed):
            decode_response(content)
        quoted(content)
        return
    text = content.decode("utf-8", "surrogateescape")
    if kind == b"k":
        with suppress(ProbeConfigError):
            for probe in parse_kubernetes_probers(text).values():
                assert probe.timeout_s > 0
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict):
        with suppress(ProbeConfigError):
            probe, _ = parse_readiness_probe(value)
            assert probe.timeout_s > 0


def originals() -> Iterator[bytes]:
    """Probes of each kind, and replies of a server."""
    get = {
        "path": "/x?y=1",
        "port": 8080,
        "scheme": "HTTPS",
        "httpHeaders": [{"name": "A", "value": "b"}],
    }
    probers = {
        "/app-health/web/livez": {"httpGet": get, "timeoutSeconds": 3},
        "/app-health/web/readyz": {"tcpSocket": {"port": 80}},
        "/app-lifecycle/web/prestopz": {"httpGet": {"port": 80}},
        "/app-health/web/startupz": {"grpc": {"port": 80, "service": "x"}},
    }
    yield b"k" + json.dumps(probers).encode()
    yield b"r" + json.dumps({"httpGet": get, "periodSeconds": 5, "failureThreshold": 2}).encode()
    yield b"r" + json.dumps({"exec": {"command": ["a", "b"]}, "initialDelaySeconds": 1}).encode()
    yield b"g\x08\x01"
    yield b"g\x12\x02ab\x08\xff\xff\xff\xff\x0f"
