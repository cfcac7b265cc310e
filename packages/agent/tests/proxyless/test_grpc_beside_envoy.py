"""gRPC applications that take their configuration themselves, beside an Envoy."""

import json
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from msgspec import structs

import certclient
from certclient.testing import FakeAuthority
from mesh_agent import AgentConfig, ConfigError, Flags, load_config
from mesh_agent._errors import BootstrapNotWritten
from mesh_agent.envoy._machine_place import MachinePlace
from mesh_agent.identity._workload_secrets import OwnSecrets
from mesh_agent.proxyless._grpc_beside_envoy import serving_grpc
from mesh_lifecycle import Readiness
from mesh_testkit import until
from xds_proxy.testing import control_plane

Load = Callable[..., AgentConfig]
DEFAULT = "etc/istio/proxy/grpc-bootstrap.json"


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def loaded(address: str = "127.0.0.1:15010", **environ: str) -> AgentConfig:
        for name in ("var/run/secrets/tokens/istio-token", "var/run/secrets/istio/root-cert.pem"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("x")
        proxy = {"discoveryAddress": address, "controlPlaneAuthPolicy": "NONE"}
        return load_config(
            Flags(),
            environ={
                "POD_NAME": "web-1",
                "POD_NAMESPACE": "shop",
                "INSTANCE_IP": "127.0.9.1",
                "PROXY_CONFIG": json.dumps(proxy),
                "CLOUD_PLATFORM": "none",
                **environ,
            },
            directory=tmp_path,
            version="1.2.3",
        )

    return loaded


@asynccontextmanager
async def serving(config: AgentConfig, readiness: Readiness | None = None) -> AsyncIterator[None]:
    """Serve applications as the agent does, with the certificate that an authority issues."""
    async with (
        certclient.keep_fresh(config.rotation, FakeAuthority()) as issued,
        certclient.with_trust(issued, config.trust) as certificates,
    ):
        secrets = OwnSecrets(certificates=certificates)
        ready = readiness.register("files") if readiness is not None else None
        place = MachinePlace(config.place.known)
        async with serving_grpc(config, place=place, secrets=secrets, learned=None, ready=ready):
            yield


def bootstrap_at(path: Path) -> Any:
    return json.loads(path.read_bytes())


async def test_the_bootstrap_names_a_socket_beside_envoy_s_and_goes_with_what_calls_there(
    load: Load, tmp_path: Path
) -> None:
    async with control_plane() as plane:
        config = load(plane.address)
        async with serving(config):
            bootstrap = bootstrap_at(tmp_path / DEFAULT)
            uri: str = bootstrap["xds_servers"][0]["server_uri"]
            assert uri != f"unix://{config.relay.socket_path.absolute()}"
            assert bootstrap["node"]["id"] == config.identity.node_id
            assert bootstrap["node"]["metadata"]["GENERATOR"] == "grpc"

            async with grpc.aio.insecure_channel(uri) as channel:
                service = "/envoy.service.discovery.v3.AggregatedDiscoveryService"
                method: Any = channel.stream_stream(f"{service}/StreamAggregatedResources")  # type: ignore[call-arg]
                call = method()
                await call.write(b"\x22\x01x")  # a request for the type x
                stream = await plane.accept()
                assert await stream.receive() == b"\x22\x01x"
                call.cancel()
        assert not Path(uri.removeprefix("unix://")).exists()


def test_where_it_is_not_asked_for_the_files_of_the_certificate_stay_as_envoys_are(
    load: Load,
) -> None:
    config = load(OUTPUT_CERTS="out", KUBERNETES_SERVICE_HOST="10.0.0.1")
    beside, output = config.grpc_beside_envoy, config.output
    assert beside is not None
    assert output is not None
    assert (beside.is_asked_for, beside.relay.socket_mode, output.atomic) == (False, 0o600, False)


def test_where_it_is_asked_for_applications_of_other_users_can_read_all(load: Load) -> None:
    config = load(
        OUTPUT_CERTS="out", KUBERNETES_SERVICE_HOST="10.0.0.1", GRPC_XDS_BOOTSTRAP="run/g.json"
    )
    beside, output = config.grpc_beside_envoy, config.output
    assert beside is not None
    assert output is not None
    assert (beside.is_asked_for, beside.relay.socket_mode, output.atomic) == (True, 0o666, True)
    assert config.relay.socket_mode == 0o600
    assert beside.relay.max_streams > config.relay.max_streams
    assert config.rotation.key_encoding is certclient.KeyEncoding.PKCS8
    assert load(DISABLE_ENVOY="true").grpc_beside_envoy is None


async def test_an_agent_that_is_asked_for_it_is_ready_with_its_files(
    load: Load, tmp_path: Path
) -> None:
    config, readiness = load(GRPC_XDS_BOOTSTRAP="run/g.json"), Readiness()
    async with serving(config, readiness):
        await until(lambda: readiness.ready, what="the file to be noticed")
        assert stat.S_IMODE((tmp_path / "run/g.json").stat().st_mode) == 0o644
        (tmp_path / "run/g.json").unlink()
        await until(lambda: not readiness.ready, what="the loss of the file to be noticed")


async def test_only_where_it_is_asked_for_an_agent_fails_without_it(
    load: Load, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BootstrapNotWritten, match=r"g\.json can't be written"):
        async with serving(load(GRPC_XDS_BOOTSTRAP="file/g.json")):
            pass

    config = load()
    assert config.grpc_beside_envoy is not None
    beside = structs.replace(config.grpc_beside_envoy, bootstrap=tmp_path / "file/g.json")
    with caplog.at_level("INFO"):
        async with serving(structs.replace(config, grpc_beside_envoy=beside)):
            pass
    (said,) = [each for each in caplog.records if "are not served" in each.message]
    assert "can't be written" in said.__dict__["reason"]


def test_a_socket_that_no_application_could_connect_to_is_reported_if_it_is_asked_for(
    load: Load,
) -> None:
    proxy = {"discoveryAddress": "127.0.0.1:15012", "configPath": f"./{'x' * 107}"}
    given = {"PROXY_CONFIG": json.dumps(proxy)}
    assert load(**given).grpc_beside_envoy is None
    with pytest.raises(ConfigError, match="applications can connect to at most 107"):
        load(**given, GRPC_XDS_BOOTSTRAP="g.json")


def test_beside_a_bootstrap_of_the_user_s_own_it_has_no_effect(load: Load, tmp_path: Path) -> None:
    (tmp_path / "envoy.json").write_text("{}")
    config = load(ISTIO_BOOTSTRAP="envoy.json", GRPC_XDS_BOOTSTRAP="g.json")
    assert config.grpc_beside_envoy is None
    (said,) = [
        each for each in config.effective.without_effect if each.setting == "GRPC_XDS_BOOTSTRAP"
    ]
    assert "the node stands in an Envoy's bootstrap of your own" in said.reason
