"""A Pod of which nothing changes that a proxy could see: what each reading of it costs.

Run as a script. A mesh of services with ten pods each, once with 5 000 pods and once with ten times
as many; in each an annotation of one pod changes again and again, as the files of it would be read.
What is measured is the CPU on the event loop, from the reading until it is decided that no push is
needed. The meshes alternate in one run; the ratio says how far the cost follows the mesh.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry

sys.path.insert(0, str(Path(__file__).parents[2] / "istio-config" / "tests" / "support"))

from istio_config import ConfigObject, FileContent, edited_snapshot, snapshot_of
from istio_config.kinds.kubernetes import POD
from mesh_discovery._metrics import Metrics
from mesh_discovery.push._config_store import ConfigStore
from mesh_model import Facts
from mesh_objects import object_of, service, slice_of
from mesh_testkit.measurements import FLOOR, Row, tell
from xds_server import PushRequest

PODS_OF_A_SERVICE = 10
NAMESPACES = 50
SMALL = 5_000


class Mesh:
    """A mesh in a control plane, and the pod that is edited."""

    def __init__(self, pods: int) -> None:
        objects: list[ConfigObject] = []
        for number in range(pods // PODS_OF_A_SERVICE):
            name, namespace = f"s{number}", f"ns-{number % NAMESPACES}"
            addresses = [
                f"10.{number >> 8 & 255}.{number & 255}.{each}"
                for each in range(1, PODS_OF_A_SERVICE + 1)
            ]
            objects.append(service(name, namespace, selector={"app": name}))
            objects.append(slice_of(name, *addresses, namespace=namespace, pods=True))
            objects += [_pod(each, name, namespace) for each in addresses]
        self._pod = objects[len(objects) // 2 // 12 * 12 + 5]
        assert self._pod.kind == POD.name
        self._snapshot = snapshot_of([FileContent(objects=tuple(objects))])
        self._store = ConfigStore(
            Facts(snapshot=self._snapshot),
            metrics=Metrics(CollectorRegistry(), version="bench"),
            trust_domain="cluster.local",
            domain="cluster.local",
            scope_gateways=False,
            strict_namespaces=False,
        )
        self._edits = 0

    def edit(self) -> float:
        """Change the annotation; return the seconds of CPU on the event loop."""
        self._edits += 1
        edited = replace(self._pod, annotations=(("checked", str(self._edits)),))
        snapshot = edited_snapshot(
            self._snapshot, [FileContent(objects=(self._pod,))], [FileContent(objects=(edited,))]
        )
        assert snapshot is not None
        self._pod, self._snapshot = edited, snapshot
        facts = Facts(snapshot=snapshot)
        began = time.thread_time()
        self._store.serve(facts, _refuse)
        return time.thread_time() - began


def _pod(address: str, app: str, namespace: str) -> ConfigObject:
    return object_of(
        POD,
        f"p-{address}",
        {"containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
        namespace=namespace,
        labels={"app": app},
        status={"phase": "Running", "podIP": address, "conditions": [_READY]},
    )


_READY = {"type": "Ready", "status": "True"}


def _refuse(_request: PushRequest) -> None:
    raise AssertionError("a pod of which nothing changed is pushed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10 * SMALL, help="of the larger mesh")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    small, large = Mesh(SMALL), Mesh(options.pods)
    small_ms, large_ms = [], []
    for _ in range(options.rounds):
        small_ms.append(small.edit() * 1000)
        large_ms.append(large.edit() * 1000)
    what = f"pod without effect: CPU, {options.pods} pods"
    tell([Row(what, "ms", large_ms, {f"{SMALL} pods": small_ms, FLOOR: small_ms})])


if __name__ == "__main__":
    main()
