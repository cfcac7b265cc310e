"""Edits of rules change the routes that they are about, and lead to what a fresh start has."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from documents import document
from pushed_meshes import Mesh, route, router, service, sidecar

HOSTS = ("one", "two", "three")
FULL = "{}.a.svc.cluster.local"


def rule(name: str, header: str) -> str:
    policy = f"{{loadBalancer: {{consistentHash: {{httpHeaderName: {header}}}}}}}"
    host = FULL.format(name)
    return document("DestinationRule", f"rule-{name}", f"{{host: {host}, trafficPolicy: {policy}}}")


def edits() -> st.SearchStrategy[tuple[str, str | None]]:
    """Return a file's name and its text; None: it is removed."""
    hosts = st.sampled_from(HOSTS)
    timeouts = st.sampled_from(["", "timeout: 1s, ", "timeout: 2s, "])
    routes = st.builds(
        lambda name, host, to, timeout: (
            f"routes_{name}",
            route(FULL.format(host), FULL.format(to), name=f"routes-{name}", more=timeout),
        ),
        hosts,
        hosts,
        hosts,
        timeouts,
    )
    rules = st.builds(
        lambda name, header: (f"rule_{name}", rule(name, header)), hosts, st.sampled_from("xy")
    )
    services = st.builds(
        lambda name, number: (name, service(name, f"10.1.0.{number}")),
        hosts,
        st.integers(1, 3),
    )
    removed = st.builds(
        lambda kind, name: (f"{kind}_{name}", None), st.sampled_from(["routes", "rule"]), hosts
    )
    return st.one_of(routes, rules, services, removed)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(edits(), min_size=1, max_size=8))
def test_any_edits_lead_to_what_a_fresh_start_has(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str | None]]
) -> None:
    directory: Path = tmp_path_factory.mktemp("mesh")
    mesh = Mesh(directory, **{name: service(name, "10.1.0.1") for name in HOSTS})
    mesh.connect(sidecar("a"), sidecar("b", mode="NONE"), sidecar("a", mode="NONE"), router("a"))
    for name, text in changes:
        if text is None and not (directory / f"{name}.yaml").exists():
            continue
        mesh.change(**{name: text})  # compares what each proxy has with a fresh start
