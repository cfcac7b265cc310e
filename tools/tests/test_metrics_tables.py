"""The tables of metrics in the packages' READMEs, against scrapes of a control plane and an agent.

Neither has a metric that the other lacks, nor another type or other labels.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import dns.asyncquery
import dns.message
import dns.opcode
import pytest

from mesh_testkit import PATIENCE_S
from workspace import ROOT

sys.path.insert(0, str(ROOT / "tests-e2e" / "support"))

from mesh_e2e import (
    Agent,
    Plane,
    Target,
    has_all,
    own_address,
    plane,
    running_agent,
    send,
    until_status,
    workload,
)

PLANE, WEB = own_address(97), own_address(98)
OF_THE_PLANE = ("discovery", "xds-server", "ca", "listening")
OF_THE_AGENT = ("agent",)
SHARED = "mesh_listener_connections_"
"""What the metrics of ports begin with. The agent makes them itself, as mesh-listening tells."""

HEAD = "| name | type | labels | meaning |"
OF_BUCKETS = "le"
OF_ENVOY = "envoy_"

RARE = {
    "istio_agent_wasm_cache_entries",
    "istio_agent_wasm_cache_lookup_count",
    "istio_agent_wasm_config_conversion_count",
    "istio_agent_wasm_config_conversion_duration",
    "istio_agent_wasm_remote_fetch_count",
    "mesh_agent_xds_adaptations_total",
}
"""Metrics that need a control plane of Istio's, which the test does without: looked for in the
sources.
"""

GROUP = """\
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: web, namespace: shop}
spec:
  metadata: {labels: {app: web}}
  template: {serviceAccount: web, ports: {http: 8080}}
"""


class Described(NamedTuple):
    """A metric's type and labels; None if it has had no samples, which have the labels."""

    kind: str
    labels: frozenset[str] | None


class Scrapes(NamedTuple):
    """What there is at the end of each name of a metric."""

    agent: Mapping[str, Described]
    plane: Mapping[str, Described]


def exposed(page: str) -> dict[str, Described]:
    """The metrics of a page in Prometheus' text format, without Envoy's own."""
    found = {}
    for name, kind, samples in re.findall(
        r"^# TYPE (\S+) (\w+)\n((?:[^#\n].*\n)*)", page, flags=re.MULTILINE
    ):
        # The client library's moment of creation, of each counter and histogram.
        if name.endswith("_created") or name.startswith(OF_ENVOY):
            continue
        labels = frozenset(re.findall(r'(\w+)="', samples)) - {OF_BUCKETS}
        found[name] = Described(kind, labels if samples else None)
    return found


@cache
def documented(package: str) -> Mapping[str, Described]:
    readme = (ROOT / "packages" / package / "README.md").read_text()
    rows = [row for table in readme.split(HEAD)[1:] for row in rows_of(table)]
    found = {
        name.strip("`"): Described(kind, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels, _ in rows
    }
    assert len(found) == len(rows)
    assert all(meaning for *_, meaning in rows)
    return found


def rows_of(table: str) -> Iterator[list[str]]:
    for line in table.splitlines()[2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def sources_of(*packages: str) -> str:
    files = (file for name in packages for file in (ROOT / "packages" / name / "src").rglob("*.py"))
    return "\n".join(file.read_text() for file in files)


async def scrape(address: str, port: int) -> dict[str, Described]:
    code, body = await send(Target(host=address, port=port, url="/metrics"))
    assert code == 200
    return exposed(body.decode())


async def until_known(agent: Agent) -> None:
    """Wait for what is told only when it is known: certificate, health, an answer of DNS."""
    await until_status(agent, has_all, what="the agent to be ready")
    await until_status(
        agent,
        lambda status: bool(
            status["envoy_certificate"].get("matches")
            and status["health_check"]["healthy"] is not None
            and status["xds"]["saved"]["current_at"]
        ),
        what="the certificate that Envoy shows, health and what is saved",
    )
    query = dns.message.make_query("web.shop", "A")
    query.set_opcode(dns.opcode.UPDATE)
    await dns.asyncquery.udp(query, WEB, port=15053, timeout=PATIENCE_S, ignore_errors=True)


@contextmanager
def control_plane(directory: Path) -> Iterator[Plane]:
    """Run a control plane that knows the group of the workload, and signs in a further process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MESH_DISCOVERY_CA_SIGNERS", "1")
        with plane(directory, PLANE) as running:
            (directory / "config" / "group.yaml").write_text(GROUP)
            yield running


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory: pytest.TempPathFactory) -> Scrapes:
    return asyncio.run(scraped(tmp_path_factory.mktemp("metrics")))


async def scraped(directory: Path) -> Scrapes:
    settings = {
        "discoveryAddress": f"{PLANE}:15012",
        "readinessProbe": {"periodSeconds": 1, "httpGet": {"port": 1, "path": "/"}},
    }
    with control_plane(directory / "plane") as control:
        web = workload(
            control,
            directory / "web",
            WEB,
            ISTIO_META_AUTO_REGISTER_GROUP="web",
            MESH_AGENT_STS_URL="http://127.0.0.1:9/token",
            MESH_AGENT_STS_AUDIENCE="orders",
            PROXY_CONFIG=json.dumps(settings),
        )
        async with running_agent(web.directory, web.environment, "--stsPort=15463") as agent:
            await until_known(agent)
            return Scrapes(agent=await scrape(WEB, 15020), plane=await scrape(PLANE, 15014))


def assert_same(documented: Mapping[str, Described], exposed: Mapping[str, Described]) -> None:
    """Fail with the rows that are too many, too few or otherwise."""
    assert set(documented) == set(exposed)
    kinds = {name: documented[name].kind for name in exposed}
    assert kinds == {name: each.kind for name, each in exposed.items()}
    labels = {name: each.labels for name, each in exposed.items() if each.labels is not None}
    assert {name: documented[name].labels for name in labels} == labels


def test_the_tables_have_each_metric_of_a_control_plane(scrapes: Scrapes) -> None:
    tables = [documented(name) for name in OF_THE_PLANE]
    assert_same({name: row for table in tables for name, row in table.items()}, scrapes.plane)
    unseen = {name for name, each in scrapes.plane.items() if each.labels is None}
    words = sources_of(*OF_THE_PLANE)
    for table in tables:
        for name in unseen & table.keys():
            labels = table[name].labels
            assert labels, f"{name} has no samples, as if it had a label"
            assert all(f'"{label}"' in words for label in labels), name


def test_the_table_of_the_agent_has_each_of_its_metrics(scrapes: Scrapes) -> None:
    rows = documented("agent")
    of_ports = {name: row for name, row in documented("listening").items() if SHARED in name}
    often = {name: row for name, row in rows.items() if name not in RARE}
    assert_same(often | of_ports, scrapes.agent)
    words = sources_of("agent")
    for name in RARE:
        end = re.sub("^(mesh_agent|istio_agent_wasm)_", "", name)
        assert re.search(rf"{end}\b", words), name
        assert name in rows
        assert all(f'"{label}"' in words for label in rows[name].labels or ())
