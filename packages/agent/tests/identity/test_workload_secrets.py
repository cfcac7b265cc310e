from pathlib import Path

import mesh_sds
from mesh_agent import AgentConfig, Flags, load_config
from mesh_agent.identity._workload_secrets import ForeignSecrets, OwnSecrets, workload_secrets
from mesh_sds.testing import FakeSecrets


def config_in(directory: Path) -> AgentConfig:
    for name in ("var/run/secrets/tokens/istio-token", "var/run/secrets/istio/root-cert.pem"):
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_text("x")
    return load_config(
        Flags(envoy_path="/bin/true"),
        environ={"PROXY_CONFIG": '{"discoveryAddress": "127.0.0.1:9"}', "INSTANCE_IP": "127.0.0.1"},
        directory=directory,
        version="1",
    )


async def test_without_anyone_at_the_socket_it_is_served_by_us(socket_dir: Path) -> None:
    config = config_in(socket_dir)
    async with workload_secrets(config) as secrets:
        assert isinstance(secrets, OwnSecrets)
        assert config.secrets.socket_path.is_socket()
        assert secrets.describe()["in_use"] == []
    assert not config.secrets.socket_path.exists()


async def test_a_healthy_server_at_the_socket_is_used_and_left_alone(socket_dir: Path) -> None:
    config = config_in(socket_dir)
    theirs = mesh_sds.SdsConfig(socket_path=config.secrets.socket_path)
    async with mesh_sds.serving(theirs, FakeSecrets()):
        async with workload_secrets(config) as secrets:
            assert isinstance(secrets, ForeignSecrets)
            assert secrets.describe()["served_by"] == str(config.secrets.socket_path)
        assert config.secrets.socket_path.is_socket()
