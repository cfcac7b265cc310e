"""Pods that are written into again: most of it says nothing to the mesh, and then costs nothing."""

import gc
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from mesh_discovery._metrics import Metrics
from mesh_discovery.push._config_store import ConfigStore
from mesh_model import Facts
from mesh_objects import edited, pod, service, slice_of, snapshot
from xds_server import PushRequest


class Mesh:
    """A control plane with so many services, each with a slice and two pods."""

    def __init__(self, services: int) -> None:
        self.pod = pod("10.0.0.0", {"app": "s0"})
        objects = [self.pod]
        for number in range(services):
            name, other = f"s{number}", f"10.0.{number}.1"
            objects += [
                service(name, selector={"app": name}),
                slice_of(name, f"10.0.{number}.0", other, pods=True),
                pod(other, {"app": name}),
            ]
            if number:
                objects.append(pod(f"10.0.{number}.0", {"app": name}))
        self.snapshot = snapshot(objects)
        self.requests: list[PushRequest] = []
        self.store = ConfigStore(
            Facts(snapshot=self.snapshot),
            metrics=Metrics(CollectorRegistry(), version="test"),
            trust_domain="cluster.local",
            domain="cluster.local",
            scope_gateways=False,
            strict_namespaces=False,
        )

    def read(self, **fields: Any) -> Facts:
        """Read the pod after something was written into it."""
        later = replace(self.pod, **fields)
        self.snapshot = edited(self.snapshot, [self.pod], [later])
        self.pod = later
        return Facts(snapshot=self.snapshot)

    def edit(self, **fields: Any) -> None:
        self.store.serve(self.read(**fields), self.requests.append)


def calls(work: Callable[[], object]) -> int:
    """Return how many functions are called, those of C too."""
    count = 0

    def called(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    gc.disable()  # its callbacks, such as Hypothesis has, would be counted whenever it runs
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def test_a_pod_without_effect_is_decided_by_the_same_work_in_a_mesh_of_any_size() -> None:
    counts = []
    for size in (4, 200):
        mesh = Mesh(size)
        mesh.edit(annotations=(("checked", "1"),))
        facts = mesh.read(annotations=(("checked", "2"),))
        counts.append(calls(partial(mesh.store.serve, facts, mesh.requests.append)))
        assert mesh.requests == []
    assert counts[0] == counts[1]


def test_an_edit_after_some_without_effect_is_pushed() -> None:
    mesh = Mesh(3)
    mesh.edit(annotations=(("checked", "1"),))
    mesh.edit(annotations=(("checked", "2"),))
    mesh.edit(labels=(("app", "s0"), ("version", "v2")))
    assert [{key.name for key in each.configs_updated} for each in mesh.requests] == [
        {"s0.default.svc.cluster.local", "10.0.0.0"}
    ]
    mesh.edit(annotations=(("checked", "3"),))
    assert len(mesh.requests) == 1
    mesh.edit(labels=(("app", "none"),))
    assert len(mesh.requests) == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": (("app", "s0"), ("version", "v2"))},
        {"annotations": (("inject.istio.io/templates", "grpc-agent"),)},
        {"spec": pod("10.0.0.0", nodeName="n").spec},
        {"spec": pod("10.0.0.0", serviceAccountName="another").spec},
    ],
)
def test_what_is_read_of_a_pod_has_an_effect(fields: dict[str, Any]) -> None:
    mesh = Mesh(3)
    mesh.edit(**fields)
    assert len(mesh.requests) == 1
