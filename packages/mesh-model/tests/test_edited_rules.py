"""Rules after edits are those that the same objects make from the beginning."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from istio_config import ConfigObject, InFile
from istio_config.kinds.destination_rule import DestinationRuleSpec
from istio_config.kinds.service_entry import Resolution
from istio_config.kinds.virtual_service import VirtualServiceSpec
from mesh_model._destination_rules import DestinationRules
from mesh_model._services import Service
from mesh_model.virtual_services._virtual_services import VirtualServices
from mesh_settings import RULES, VIRTUAL_SERVICES

NAMESPACES = ("a", "b", "istio-system")
HOSTS = ("s.a.svc.cluster.local", "t.b.svc.cluster.local", "*.b.svc.cluster.local", "*")
EXPORTS: tuple[list[str], ...] = ([], ["."], ["*"], ["b"])


def service(host: str, namespace: str) -> Service:
    return Service(
        host=host,
        namespace=namespace,
        name="s",
        ports=(),
        resolution=Resolution.STATIC,
        external=False,
    )


SERVICES = (service(HOSTS[0], "a"), service(HOSTS[1], "b"), service("u.b.svc.cluster.local", "b"))


def rule_spec(host: str, exported: list[str], subset: str, more: dict[str, Any]) -> Any:
    subsets = [{"name": subset, "labels": {"v": subset}}]
    return msgspec.convert(
        {"host": host, "exportTo": exported, "subsets": subsets, **more}, DestinationRuleSpec
    )


RULE_SPECS = st.builds(
    rule_spec,
    st.sampled_from(HOSTS),
    st.sampled_from(EXPORTS),
    st.sampled_from("xyz"),
    st.sampled_from(
        [
            {},
            {"workloadSelector": {"matchLabels": {"app": "web"}}},
            {"trafficPolicy": {"outlierDetection": {}}},
            {"trafficPolicy": {"loadBalancer": {"localityLbSetting": {"failoverPriority": ["k"]}}}},
        ]
    ),
)


def route_spec(hosts: list[str], gateways: list[str], exported: list[str], http: Any) -> Any:
    content = {"hosts": hosts, "gateways": gateways, "exportTo": exported, "http": http}
    return msgspec.convert(content, VirtualServiceSpec)


def _to(host: str) -> dict[str, Any]:
    return {"route": [{"destination": {"host": host}}]}


ROUTE_SPECS = st.builds(
    route_spec,
    st.sampled_from([[], ["s"], ["t.b.svc.cluster.local"], ["s", "u"]]),
    st.sampled_from([[], ["mesh"], ["g", "mesh"], ["b/g"], ["g", "g"]]),
    st.sampled_from(EXPORTS),
    st.sampled_from(
        [
            [_to("s")],
            [_to("t")],
            [{"match": [{"sourceLabels": {"app": "x"}}], **_to("s")}],
            [{"delegate": {"name": "n0"}}, {"delegate": {"name": "n1", "namespace": "b"}}],
        ]
    ),
)


def objects_of(kind: str, drawn: dict[tuple[str, str], Any]) -> list[ConfigObject]:
    return [
        ConfigObject(
            kind=kind,
            group="networking.istio.io",
            namespace=namespace,
            name=name,
            spec=spec,
            origin=InFile("x.yaml", 1),
        )
        for (namespace, name), spec in sorted(drawn.items())
    ]


KEYS = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from([f"n{n}" for n in range(4)]))


@st.composite
def steps(draw: st.DrawFn, kind: str, specs: st.SearchStrategy[Any]) -> list[list[ConfigObject]]:
    """Draw objects, and what they are after each of some edits; others stay the same objects."""
    drawn = draw(st.dictionaries(KEYS, specs, max_size=8))
    objects = objects_of(kind, drawn)
    found = [objects]
    for edited in draw(st.lists(st.dictionaries(KEYS, st.none() | specs, max_size=3), max_size=4)):
        known = {(each.namespace, each.name): each for each in objects}
        come = objects_of(kind, {key: spec for key, spec in edited.items() if spec is not None})
        known = {key: each for key, each in known.items() if key not in edited}
        known |= {(each.namespace, each.name): each for each in come}
        objects = [known[key] for key in sorted(known)]
        if draw(st.booleans()):  # an object that only stands on another line
            objects = [each.moved(1) for each in objects[:1]] + objects[1:]
        found.append(objects)
    return found


@given(steps("DestinationRule", RULE_SPECS))
def test_edited_destination_rules_are_those_of_the_objects(all_steps: Any) -> None:
    before = None
    for objects in all_steps:
        edited = DestinationRules.build(objects, RULES, before=before)
        anew = DestinationRules.build(objects, RULES)
        for namespace in NAMESPACES:
            for each in SERVICES:
                for labels in ((), (("app", "web"),)):
                    wanted = anew.rule_for(namespace, each, labels)
                    assert edited.rule_for(namespace, each, labels) == wanted
        assert set(edited.rules) == set(anew.rules)
        assert edited.labels_looked_at == anew.labels_looked_at
        assert edited.depend_on_location == anew.depend_on_location
        before = edited


def said(virtual_services: VirtualServices) -> object:
    return [
        (each.namespace, each.name, each.spec, each.export_to, each.unused)
        for each in virtual_services.all
    ]


def test_another_namespaces_virtual_service_in_the_place_of_one_is_not_in_its_layer() -> None:
    http = [_to("s")]
    exported, own = (route_spec(["s"], [], [to], http) for to in ("b", "."))
    before = VirtualServices.build(
        objects_of("VirtualService", {("a", "n3"): exported, ("b", "n1"): own}), VIRTUAL_SERVICES
    )
    before.of_mesh("b")
    known = before.derived.objects[1]
    come = objects_of("VirtualService", {("b", "n0"): exported})[0]
    edited = VirtualServices.build([come, known], VIRTUAL_SERVICES, before=before)
    assert [each.name for each in edited.of_mesh("b")] == ["n0", "n1"]


@given(steps("VirtualService", ROUTE_SPECS))
def test_edited_virtual_services_are_those_of_the_objects(all_steps: Any) -> None:
    before = None
    for objects in all_steps:
        edited = VirtualServices.build(objects, VIRTUAL_SERVICES, before=before)
        anew = VirtualServices.build(objects, VIRTUAL_SERVICES)
        assert said(edited) == said(anew)
        assert edited.source_labels == anew.source_labels
        for gateway in ("mesh", "a/g", "b/g"):
            for namespace in NAMESPACES:
                of_gateway = edited.of_gateway(gateway, namespace)
                assert all(any(each is one for one in edited.all) for each in of_gateway)
                wanted = [each.spec for each in anew.of_gateway(gateway, namespace)]
                assert [each.spec for each in of_gateway] == wanted
        before = edited
