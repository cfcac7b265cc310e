from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest

from mesh_agent import AgentConfig, ConfigError

Load = Callable[..., AgentConfig]


def test_modules_are_fetched_as_istio_s_agent_fetches_them(load: Load, workload: Path) -> None:
    wasm = load().wasm
    assert wasm is not None
    assert wasm.cache == workload / "var/lib/istio/data/wasm"
    assert (wasm.expiry, wasm.purge_interval) == (timedelta(hours=24), timedelta(hours=1))
    assert (wasm.request_timeout, wasm.max_retries) == (timedelta(seconds=15), 5)
    assert wasm.max_module_bytes == 256 * 1024 * 1024
    assert wasm.blocked_networks == ()
    assert wasm.insecure_registries == frozenset()


def test_lists_may_have_spaces(load: Load) -> None:
    wasm = load(
        {
            "BLOCKED_CIDRS_IN_WASM_FETCH": "10.0.0.0/8, fc00::/7,192.0.2.1,",
            "WASM_INSECURE_REGISTRIES": "localhost:5000 , registry.example",
        }
    ).wasm
    assert wasm is not None
    assert [str(each) for each in wasm.blocked_networks] == [
        "10.0.0.0/8",
        "fc00::/7",
        "192.0.2.1/32",
    ]
    assert ip_network("10.0.0.0/8") in wasm.blocked_networks
    assert wasm.insecure_registries == {"localhost:5000", "registry.example"}


def test_envoy_may_fetch_its_modules_itself(load: Load) -> None:
    assert load({"ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION": "false"}).wasm is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("BLOCKED_CIDRS_IN_WASM_FETCH", "10.0.0.0/33", "has '10.0.0.0/33', it must be networks"),
        ("BLOCKED_CIDRS_IN_WASM_FETCH", "localhost", "has 'localhost'"),
        ("ISTIO_WASM_MAX_BINARY_SIZE_BYTES", "7", "no module is that small"),
        ("ISTIO_WASM_MAX_BINARY_SIZE_BYTES", "1M", "is not a number"),
        ("WASM_MODULE_EXPIRY", "0s", "must be longer than nothing"),
        ("WASM_HTTP_REQUEST_MAX_RETRIES", "-1", "must be 0 or more"),
    ],
)
def test_a_setting_that_can_never_work_is_a_problem(
    load: Load, name: str, value: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=name) as raised:
        load({name: value})
    assert words in str(raised.value)
