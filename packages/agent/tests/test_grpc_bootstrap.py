from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_agent import AgentConfig, Flags, load_config
from mesh_agent._grpc_bootstrap import grpc_bootstrap

Golden = Callable[[str, object], None]


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., AgentConfig]:
    def load(**environ: str) -> AgentConfig:
        for name in ("var/run/secrets/tokens/istio-token", "var/run/secrets/istio/root-cert.pem"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("x")
        pod = tmp_path / "etc/istio/pod"
        pod.mkdir(parents=True, exist_ok=True)
        (pod / "labels").write_text('app="web"\ntopology.istio.io/locality="here/a"\n')
        return load_config(
            Flags(),
            environ={
                "DISABLE_ENVOY": "true",
                "POD_NAME": "web-1",
                "POD_NAMESPACE": "shop",
                "SERVICE_ACCOUNT": "web",
                "INSTANCE_IP": "127.0.9.1",
                "PROXY_CONFIG": '{"discoveryAddress": "127.0.0.1:15012"}',
                **environ,
            },
            directory=tmp_path,
            version="1.2.3",
        )

    return load


def placed(value: object, directory: Path) -> object:
    """The same with the test's own directory named."""
    match value:
        case dict():
            return {key: placed(each, directory) for key, each in value.items()}
        case list():
            return [placed(each, directory) for each in value]
        case str():
            return value.replace(str(directory), "/WORKLOAD")
        case _:
            return value


def test_the_bootstrap_names_socket_node_and_files(
    config: Callable[..., AgentConfig], golden: Golden, tmp_path: Path
) -> None:
    bootstrap = grpc_bootstrap(config(OUTPUT_CERTS="./var/lib/istio/data"))
    golden("grpc-bootstrap.json", placed(bootstrap, tmp_path))


def test_without_files_of_the_certificate_none_are_named(
    config: Callable[..., AgentConfig],
) -> None:
    with_files = grpc_bootstrap(config(OUTPUT_CERTS="out"))
    without = grpc_bootstrap(config())
    assert with_files.keys() - without.keys() == {"certificate_providers"}
