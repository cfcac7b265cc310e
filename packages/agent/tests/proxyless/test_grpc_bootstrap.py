import json
import logging
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import certclient
from certclient.testing import FakeAuthority
from mesh_agent import AgentConfig, ConfigError, Flags, load_config
from mesh_agent.proxyless._grpc_bootstrap import (
    grpc_bootstrap,
    keep_refresh_interval,
    refresh_interval,
    write_grpc_bootstrap,
)
from mesh_lifecycle import in_background
from mesh_testkit import until

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


@pytest.mark.parametrize(
    ("lifetime", "ratio", "seconds"),
    [("24h", "0.5", 900), ("1h", "0.5", 441), ("40s", "0.9", 8), ("10s", "0.01", 1)],
)
def test_files_are_read_several_times_while_a_certificate_and_its_successor_are_valid(
    config: Callable[..., AgentConfig], lifetime: str, ratio: str, seconds: int
) -> None:
    given = config(SECRET_TTL=lifetime, SECRET_GRACE_PERIOD_RATIO=ratio)
    assert refresh_interval(given, given.rotation.lifetime) // timedelta(seconds=1) == seconds


def test_the_interval_is_the_user_s_to_say(config: Callable[..., AgentConfig]) -> None:
    given = config(MESH_AGENT_GRPC_REFRESH_INTERVAL="5s", OUTPUT_CERTS="out")
    assert '"refresh_interval": "5s"' in json.dumps(grpc_bootstrap(given))
    with pytest.raises(ConfigError, match="it must be 1s or longer"):
        config(MESH_AGENT_GRPC_REFRESH_INTERVAL="100ms")


async def test_certificates_of_a_shorter_life_have_the_bootstrap_written_again(
    config: Callable[..., AgentConfig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given, path = config(OUTPUT_CERTS="out"), tmp_path / "grpc.json"
    await write_grpc_bootstrap(path, grpc_bootstrap(given))

    def interval() -> str:
        providers = json.loads(path.read_bytes())["certificate_providers"]
        text: str = providers["default"]["config"]["refresh_interval"]
        return text

    assert interval() == "900s"
    short = FakeAuthority(lifetime=timedelta(seconds=600))
    async with certclient.keep_fresh(given.rotation, short) as certificates:
        following = keep_refresh_interval(given, path, certificates)
        async with in_background(following, name="bootstrap"):
            await until(lambda: interval() != "900s", what="the file to be written again")
    assert interval() in ("72s", "73s")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    (warning,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "have to be restarted" in warning.message


def test_only_in_a_pod_may_other_users_connect(config: Callable[..., AgentConfig]) -> None:
    assert config().relay.socket_mode == 0o600
    assert config(KUBERNETES_SERVICE_HOST="10.0.0.1").relay.socket_mode == 0o666
    with_envoy = config(DISABLE_ENVOY="false", KUBERNETES_SERVICE_HOST="10.0.0.1")
    assert with_envoy.relay.socket_mode == 0o600
    assert config().relay.max_streams > with_envoy.relay.max_streams


def test_a_socket_that_no_application_could_connect_to_is_reported(
    config: Callable[..., AgentConfig],
) -> None:
    long = "x" * 107
    with pytest.raises(
        ConfigError, match="bytes long, and applications can connect to at most 107"
    ):
        config(PROXY_CONFIG=f'{{"discoveryAddress": "127.0.0.1:15012", "configPath": "./{long}"}}')


def test_key_chain_and_roots_change_at_one_moment(config: Callable[..., AgentConfig]) -> None:
    given = config(OUTPUT_CERTS="out")
    assert given.output is not None
    assert given.output.atomic
    with_envoy = config(OUTPUT_CERTS="out", DISABLE_ENVOY="false")
    assert with_envoy.output is not None
    assert not with_envoy.output.atomic
