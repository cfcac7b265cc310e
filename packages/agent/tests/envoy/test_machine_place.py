"""The cloud's metadata server, there or not, never delays the agent's start."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from envoy_supervisor import BootstrapConfig, EnvoyConfig, Locality
from mesh_agent import AgentConfig, ConfigError
from mesh_agent.envoy._machine_place import MachinePlace, machine_place
from mesh_platform import Platform
from mesh_platform.testing import aws_server, gcp_server, listening, metadata_server
from mesh_testkit import PATIENCE_S, until

Load = Callable[..., AgentConfig]


def on_aws(address: object) -> dict[str, str]:
    return {
        "CLOUD_PLATFORM": "aws",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{address}/",
    }


def bootstrap(envoy: EnvoyConfig) -> BootstrapConfig:
    assert isinstance(envoy.bootstrap, BootstrapConfig)
    return envoy.bootstrap


def platform_metadata(envoy: EnvoyConfig) -> Mapping[str, object]:
    found = bootstrap(envoy).node_metadata.get("PLATFORM_METADATA", {})
    assert isinstance(found, Mapping)
    return found


async def test_an_envoy_that_starts_after_the_answer_has_the_machines_place(load: Load) -> None:
    async with metadata_server(aws_server()) as server:
        config = load(on_aws(server.address))
        async with machine_place(config.place) as place:
            await until(config.place.remembered.exists, what="the answer is kept")
            envoy = place.applied(config.envoy)
    assert bootstrap(envoy).locality == Locality(region="eu-west-1", zone="eu-west-1b")
    assert platform_metadata(envoy)["aws_instance_id"] == "i-0123456789abcdef0"


async def test_an_answer_that_comes_late_is_reported_and_counts_for_the_next_envoy(
    load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    async with metadata_server(aws_server()) as server:
        config = load(on_aws(server.address))
        async with machine_place(config.place) as place:
            first = place.applied(config.envoy)
            await until(config.place.remembered.exists, what="the answer is kept")
            assert bootstrap(first).locality == Locality()
            assert bootstrap(place.applied(config.envoy)).locality.zone == "eu-west-1b"
    assert "became known after Envoy had started" in caplog.text
    again = load(on_aws("127.0.0.1:1"))
    assert bootstrap(MachinePlace(again.place.known).applied(again.envoy)).locality.zone == (
        "eu-west-1b"
    )


async def test_a_server_that_hangs_holds_nothing_up(load: Load) -> None:
    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()
        await asyncio.sleep(3600)

    async with listening(hang) as address:
        config = load(on_aws(address))
        async with machine_place(config.place) as place:
            assert place.applied(config.envoy) == config.envoy


async def test_a_server_that_is_not_there_is_reported(
    load: Load, caplog: pytest.LogCaptureFixture, free_port: Callable[[], int]
) -> None:
    config = load(on_aws(f"127.0.0.1:{free_port()}"))
    with caplog.at_level(logging.WARNING):
        async with machine_place(config.place):
            await until(lambda: "the machine's place is not known" in caplog.text, what="the log")


async def test_a_label_wins_over_the_machines_place(load: Load) -> None:
    labels = {"ISTIO_METAJSON_LABELS": '{"topology.istio.io/locality": "here/a"}'}
    config = load({**labels, "GCP_METADATA": "shop|1234|main|europe-west1-b"})
    envoy = MachinePlace(config.place.known).applied(config.envoy)
    assert bootstrap(envoy).locality == Locality(region="here", zone="a")
    assert platform_metadata(envoy) == {
        "gcp_project": "shop",
        "gcp_project_number": "1234",
        "gcp_gke_cluster_name": "main",
        "gcp_location": "europe-west1-b",
    }


async def test_settings_that_say_where_the_machine_is_on_gcp_need_no_request(load: Load) -> None:
    server = gcp_server()
    async with metadata_server(server):
        config = load(
            {
                "GCP_METADATA": "shop|1234|main|europe-west1-b",
                "GCE_METADATA_HOST": str(server.address),
                "CLOUD_PLATFORM": "gcp",
            }
        )
        async with machine_place(config.place) as place:
            envoy = place.applied(config.envoy)
    assert bootstrap(envoy).locality == Locality(region="europe-west1", zone="europe-west1-b")
    assert server.requests == []


async def test_a_setting_is_added_to_what_the_cloud_says(load: Load) -> None:
    async with metadata_server(gcp_server()) as server:
        config = load(
            {
                "GKE_CLUSTER_URL": "https://cluster.example",
                "GCE_METADATA_HOST": str(server.address),
                "CLOUD_PLATFORM": "gcp",
            }
        )
        async with machine_place(config.place) as place:
            await until(config.place.remembered.exists, what="the answer is kept")
            envoy = place.applied(config.envoy)
    assert platform_metadata(envoy)["gcp_gke_cluster_url"] == "https://cluster.example"
    assert platform_metadata(envoy)["gcp_project"] == "shop-project"


def test_no_cloud_is_asked_where_settings_or_the_machine_say_there_is_none(load: Load) -> None:
    assert load({"CLOUD_PLATFORM": "none"}).place.provider is None
    disabled = {"CLOUD_PLATFORM": "aws", "AWS_EC2_METADATA_DISABLED": "true"}
    assert load(disabled).place.provider is None


@pytest.mark.parametrize("content", ["", "[]", "null", "{", '["gcp", 1, 2, {}]', '["a", "b"]'])
def test_a_kept_answer_that_is_none_is_left_out(load: Load, workload: Path, content: str) -> None:
    kept = workload / "etc/istio/proxy/platform.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(content)
    assert load({"CLOUD_PLATFORM": "gcp"}).place.known is None
    kept.write_text(json.dumps(Platform("gcp", "r", "z", {"a": "b"})))
    assert load({"CLOUD_PLATFORM": "gcp"}).place.known == Platform("gcp", "r", "z", {"a": "b"})
    assert load({"CLOUD_PLATFORM": "aws"}).place.known is None


@pytest.mark.parametrize(
    ("environ", "complaint"),
    [
        ({"CLOUD_PLATFORM": "alibaba"}, "CLOUD_PLATFORM is 'alibaba', it must be one of aws"),
        ({"GCP_METADATA": "a|b"}, "it must be PROJECT.NUMBER.CLUSTER.ZONE"),
        ({"CLOUD_PLATFORM": "gcp", "GCE_METADATA_HOST": "x:y"}, "GCE_METADATA_HOST is 'x:y'"),
    ],
)
def test_a_mistake_is_one_sentence(load: Load, environ: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load(environ)


async def test_the_first_envoy_waits_for_an_answer_that_comes_at_once(load: Load) -> None:
    async with metadata_server(aws_server()) as server:
        config = load(on_aws(server.address))
        async with machine_place(config.place) as place:
            await place.wait_first_answer(PATIENCE_S)
            envoy = place.applied(config.envoy)
            await until(config.place.remembered.exists, what="the answer is kept")
    assert bootstrap(envoy).locality.zone == "eu-west-1b"


@pytest.mark.parametrize("cloud", ["none", "gone", "known"])
async def test_no_envoy_waits_for_an_answer_that_does_not_come_or_is_known(
    load: Load, free_port: Callable[[], int], cloud: str
) -> None:
    environ = {
        "none": {"CLOUD_PLATFORM": "none"},
        "gone": on_aws(f"127.0.0.1:{free_port()}"),
        "known": {"GCP_METADATA": "shop|1234|main|europe-west1-b"},
    }[cloud]
    async with machine_place(load(environ).place) as place, asyncio.timeout(PATIENCE_S):
        await place.wait_first_answer(timeout_s=10 * PATIENCE_S)


async def test_a_cloud_that_hangs_is_waited_for_a_bounded_time(load: Load) -> None:
    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()
        await asyncio.sleep(3600)

    async with listening(hang) as address, machine_place(load(on_aws(address)).place) as place:
        await place.wait_first_answer(timeout_s=0.01)
        assert not place.is_known
