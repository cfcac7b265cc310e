"""What VirtualServices say without effect is reported with its field."""

import pytest

from unreachable import unreachable
from virtual_services import HOST, VERSIONS, model_of, only, virtual_service

SERVICE = f"""\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b}}
spec: {{hosts: [{HOST}], resolution: STATIC, ports: [{{number: 80, name: http, protocol: HTTP}}]}}
"""
OLD, NEW = "2020-01-01", "2021-01-01"

TOLD = {
    "a delegate that is not there": (
        [virtual_service("delegate: {name: d}", only())],
        ["spec.http[0].delegate: there is no VirtualService d without hosts"],
    ),
    "a delegate that no one names": (
        [virtual_service(only(), name="d", hosts="")],
        ["spec: has no hosts, and no VirtualService delegates to it"],
    ),
    "a host that is governed": (
        [
            virtual_service(only(), name="a", created=OLD),
            virtual_service(only(), name="b", created=NEW),
        ],
        [f'spec.hosts[0]: "{HOST}" is governed by VirtualService b/a, which comes first'],
    ),
    "a destination that is no service": (
        [virtual_service(only(host="t"))],
        ["spec.http[0].route[0].destination.host: there is no service t.b.svc.cluster.local"],
    ),
    "a subset of no rule": (
        [VERSIONS, virtual_service(only("v3"))],
        [
            f"spec.http[0].route[0].destination.subset: no DestinationRule for {HOST} has the sub",
        ],
    ),
    "a mirror that is no service": (
        [virtual_service("mirror: {host: t}, " + only())],
        ["spec.http[0].mirror.host: there is no service t.b.svc.cluster.local"],
    ),
    "nothing": ([VERSIONS, virtual_service(only("v2"))], []),
    "one of a certain port before another": (
        [
            virtual_service("match: [{port: 81}], " + only(), name="a", created=OLD),
            virtual_service(only(), name="b", created=NEW),
        ],
        [],
    ),
    "a private one after a public one": (
        [
            virtual_service(only(), name="a", created=OLD),
            virtual_service(only(), name="b", created=NEW, more="exportTo: [.]"),
        ],
        [],
    ),
}


@pytest.mark.parametrize(("documents", "wanted"), TOLD.values(), ids=TOLD)
def test_what_comes_to_nothing_is_reported(documents: list[str], wanted: list[str]) -> None:
    problems = unreachable(model_of(SERVICE, *documents))
    messages = [f"{each.field}: {each.message}" for each in problems]

    assert [each[: len(start)] for each, start in zip(messages, wanted, strict=True)] == wanted
