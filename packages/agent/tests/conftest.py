"""A workload's directory, and the agent's configuration loaded in it."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from mesh_agent import AgentConfig, Flags, load_config

sys.path.insert(0, str(Path(__file__).parent / "support"))

Load = Callable[..., AgentConfig]

BASE = {
    "POD_NAME": "web-1",
    "POD_NAMESPACE": "shop",
    "SERVICE_ACCOUNT": "web",
    "INSTANCE_IP": "127.0.9.1",
    "PROXY_CONFIG": '{"discoveryAddress": "127.0.0.1:15012"}',
}


@pytest.fixture
def workload(socket_dir: Path) -> Path:
    """A directory that holds what a platform mounts, and something that passes for an Envoy."""
    for name in ("var/run/secrets/tokens/istio-token", "var/run/secrets/istio/root-cert.pem"):
        (socket_dir / name).parent.mkdir(parents=True)
        (socket_dir / name).write_text("x")
    envoy = socket_dir / "envoy"
    envoy.write_text("#!/bin/sh\n")
    envoy.chmod(0o755)
    return socket_dir


@pytest.fixture
def load(workload: Path) -> Load:
    def load_with(environ: Mapping[str, str] | None = None, **flags: object) -> AgentConfig:
        return load_config(
            Flags(**{"envoy_path": str(workload / "envoy"), **flags}),  # type: ignore[arg-type]
            environ={**BASE, **(environ or {})},
            directory=workload,
            version="1.2.3",
        )

    return load_with
