"""What an agent was started with can be read back from the page that shows it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from mesh_agent import AgentConfig, Flags, load_config
from mesh_agent.config.shown._read_back import StartedAs, read_back

Load = Callable[..., AgentConfig]
CANARY = "canary-6b1f"


def page_of(config: AgentConfig) -> Mapping[str, object]:
    page: Mapping[str, object] = msgspec.json.decode(
        msgspec.json.encode(config.effective.as_json())
    )
    return page


def again(config: AgentConfig) -> tuple[StartedAs, AgentConfig]:
    """Compose the configuration anew, as another process does, from elsewhere."""
    started = read_back(page_of(config), version="1.2.3")
    assert started is not None
    composed = load_config(
        started.flags, environ=started.environ, directory=started.directory, version="1.2.3"
    )
    return started, composed


def test_the_configuration_is_the_same(load: Load, workload: Path) -> None:
    (workload / "mesh.yaml").write_text(
        "defaultConfig:\n  drainDuration: 7s\n  proxyMetadata:\n    SECRET_TTL: 2h\n"
    )
    before = load(
        {
            "CA_ADDR": "ca.example:443",
            "CA_ROOT_CA": "SYSTEM",
            "ISTIO_META_DNS_CAPTURE": "true",
            "DNS_PROXY_ADDR": "127.0.9.1:53",
            "MESH_AGENT_BIND_ADDRESS": "127.0.9.1",
            "SECRET_GRACE_PERIOD_RATIO": "0.25",
            "PROXY_CONFIG": json.dumps(
                {
                    "discoveryAddress": "127.0.0.1:15012",
                    "statusPort": 15998,
                    "tracing": {"zipkin": {"address": "zipkin:9411"}},
                }
            ),
        },
        mesh_config="mesh.yaml",
        service_cluster="web",
        log_target=("stdout", "log"),
        concurrency=3,
    )
    started, after = again(before)
    assert started.directory == workload
    different = {
        name
        for name, value in structs.asdict(before).items()
        if name not in {"effective", "metadata_variables"} and value != getattr(after, name)
    }
    assert different == set()
    shown, shown_again = (
        {
            (section, each.name): each.value
            for section, entries in config.effective.sections.items()
            for each in entries
        }
        for config in (before, after)
    )
    assert shown == shown_again


def test_what_the_page_hides_is_left_out(load: Load) -> None:
    started, _ = again(load({"CA_HEADER_X": CANARY, "ISTIO_META_API_TOKEN": CANARY}))
    assert CANARY not in repr(started)
    assert "(hidden)" not in started.environ.values()


@pytest.mark.parametrize(
    "page",
    [
        {},
        {"process": {"directory": 3, "user": 0}},
        {"process": {"directory": "/"}},
        {"process": {"directory": "/", "user": 0}, "flags": {"--concurrency": None}},
        {
            "process": {"directory": "/", "user": 0},
            "flags": {"--concurrency": {"value": "x", "from": "flag"}},
        },
    ],
)
def test_a_strange_page_does_no_harm(page: Mapping[str, object]) -> None:
    started = read_back(page, version="1")
    assert started is None or started.flags == Flags(version="1")
