"""An agent tells what ProxyConfigs want otherwise than it was started with, and names no values."""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from envoy.service.discovery.v3.discovery_pb2 import DiscoveryResponse

from mesh_agent import AgentConfig
from mesh_agent.envoy._start_settings import StartDifferences, StartSettings
from mesh_protos import type_urls
from mesh_protos.proxy_config_pb2 import ProxyConfig
from mesh_protowire import WireError

Load = Callable[..., AgentConfig]


def response(concurrency: int | None = None, **variables: str) -> bytes:
    config = ProxyConfig(ca_certificates_pem=["root"], proxy_metadata=variables)
    if concurrency is not None:
        config.concurrency.value = concurrency
    found = DiscoveryResponse(version_info="1", nonce="1", type_url=type_urls.PROXY_CONFIG)
    found.resources.add(type_url=type_urls.PROXY_CONFIG, value=config.SerializeToString())
    return bytes(found.SerializeToString())


def described(
    start: StartSettings, data: bytes, environ: Mapping[str, str] | None = None
) -> Mapping[str, object]:
    differences = StartDifferences(start, environ or {})
    differences.apply(data)
    return differences.describe()


STARTED = StartSettings(concurrency=2)
ENVIRON = {"A": "a", "B": ""}


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (response(), {}),
        (response(2, A="a"), {}),
        (response(B="", C=""), {}),
        (response(4), {"concurrency": 4, "started_with_concurrency": 2}),
        (response(0), {"concurrency": 0, "started_with_concurrency": 2}),
        (response(2, A="b", C="c", B=""), {"variables": ["A", "C"], "variables_count": 2}),
    ],
)
def test_what_differs_from_the_start_is_told(data: bytes, wanted: Mapping[str, object]) -> None:
    assert described(STARTED, data, ENVIRON) == wanted


def test_values_of_variables_are_told_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    differences = StartDifferences(STARTED, {"A": "old-secret"})
    with caplog.at_level(logging.INFO):
        differences.apply(response(A="new-secret"))
    (record,) = caplog.records
    told = [record.__dict__, differences.describe()]
    assert "A" in repr(told)
    assert "secret" not in repr(told)


def test_a_difference_is_logged_once_and_once_that_it_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    differences = StartDifferences(STARTED, ENVIRON)
    logged = []
    with caplog.at_level(logging.INFO):
        for data in (response(2), response(4), response(4), response(5), response(2), response()):
            caplog.clear()
            differences.apply(data)
            logged.append([each.levelname for each in caplog.records])
    assert logged == [[], ["WARNING"], [], ["WARNING"], ["INFO"], []]


def test_many_variables_are_counted_and_some_of_them_named() -> None:
    many = {f"V{index:03}": "x" for index in range(100)} | {"L" * 1000: "x"}
    told = described(STARTED, response(None, **many))
    names = told["variables"]
    assert isinstance(names, list)
    assert (len(names), max(map(len, names)), told["variables_count"]) == (32, 128, 101)


def test_bytes_that_are_no_message_change_nothing() -> None:
    differences = StartDifferences(STARTED, ENVIRON)
    differences.apply(response(4))
    broken = DiscoveryResponse(version_info="1", nonce="1", type_url=type_urls.PROXY_CONFIG)
    broken.resources.add(type_url=type_urls.PROXY_CONFIG, value=b"\x82\x01\xff")
    with pytest.raises(WireError):
        differences.apply(broken.SerializeToString())
    assert differences.describe()["concurrency"] == 4


def proxy_config(**fields: object) -> dict[str, str]:
    return {"PROXY_CONFIG": json.dumps({"discoveryAddress": "127.0.0.1:15012", **fields})}


def test_an_agent_started_as_injection_writes_it_has_no_difference(load: Load) -> None:
    config = load(proxy_config(concurrency=4, proxyMetadata={"A": "a"}))
    environ = config.metadata_variables  # the process takes them over
    assert described(config.start, response(4, A="a"), environ) == {}
    assert described(config.start, response(1, A="b"), environ) == {
        "concurrency": 1,
        "started_with_concurrency": 4,
        "variables": ["A"],
        "variables_count": 1,
    }


def test_settings_of_the_agents_own_are_no_difference(load: Load, workload: Path) -> None:
    annotations = workload / "etc/istio/pod/annotations"
    annotations.parent.mkdir(parents=True)
    text = '"concurrency: 3\\nproxyMetadata: {A: own}\\n"'
    annotations.write_text(f"proxy.istio.io/config={text}\n")
    config = load(proxy_config(concurrency=2, proxyMetadata={"A": "a", "B": "b"}))
    assert config.envoy.concurrency == 3
    assert described(config.start, response(4, A="x", B="x"), config.metadata_variables) == {
        "variables": ["B"],
        "variables_count": 1,
    }
    annotations.unlink()
    assert described(load(proxy_config(), concurrency=3).start, response(4)) == {}


def test_without_an_envoy_worker_threads_are_no_difference(load: Load) -> None:
    start = load({**proxy_config(), "DISABLE_ENVOY": "true", "OUTPUT_CERTS": "certs"}).start
    assert described(start, response(4, A="a")) == {"variables": ["A"], "variables_count": 1}
