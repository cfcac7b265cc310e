"""What is unreachable after edits is what the same objects give from the beginning."""

import gc
import weakref
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from istio_config import ConfigObject, FileContent, ObjectKey, Snapshot, snapshot_of
from istio_config.kinds.authorization_policy import AUTHORIZATION_POLICY
from istio_config.kinds.destination_rule import DESTINATION_RULE
from istio_config.kinds.gateway import GATEWAY
from istio_config.kinds.kind import Kind
from istio_config.kinds.kubernetes import ADDRESSES, NAMESPACE
from istio_config.kinds.kubernetes import HOSTS as GIVEN
from istio_config.kinds.request_authentication import REQUEST_AUTHENTICATION
from istio_config.kinds.service_entry import SERVICE_ENTRY
from istio_config.kinds.sidecar import SIDECAR
from istio_config.kinds.telemetry import TELEMETRY
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE
from mesh_findings import Findings, Unmatched, advise, review, unmatched
from mesh_findings.advice import _advice
from mesh_findings.reachability import _unmatched_labels
from mesh_model import Facts, MeshModel, build_model
from mesh_objects import object_of

NAMESPACES = ("a", "b")
HOSTS = ("s.example", "t.example", "u.other", "*.example", "*.other")
SUBSETS = ("", "v1", "v2")
GATEWAYS = ("mesh", "g", "a/g", "a/h")
KINDS: tuple[Kind[Any], ...] = (
    SERVICE_ENTRY,
    DESTINATION_RULE,
    VIRTUAL_SERVICE,
    GATEWAY,
    SIDECAR,
    NAMESPACE,
    AUTHORIZATION_POLICY,
    REQUEST_AUTHENTICATION,
    TELEMETRY,
)
NAMES = {
    SERVICE_ENTRY.name: "xy",
    DESTINATION_RULE.name: "qrs",
    VIRTUAL_SERVICE.name: "mnop",
    GATEWAY.name: "gh",
    SIDECAR.name: "kl",
    NAMESPACE.name: NAMESPACES,
    AUTHORIZATION_POLICY.name: "c",
    REQUEST_AUTHENTICATION.name: "f",
    TELEMETRY.name: "tu",
}

hosts = st.sampled_from(HOSTS)
namespaces = st.sampled_from(NAMESPACES)


def some(strategy: st.SearchStrategy[Any], *, least: int = 0) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, min_size=least, max_size=2, unique_by=str)


PORTS = [
    *({"number": n, "name": f"http-{n}", "protocol": "HTTP"} for n in (80, 81)),
    {"number": 82, "name": "tcp", "protocol": "TCP"},
    {"number": 82, "name": "tls", "protocol": "TLS"},
]
ENDPOINTS = [{"address": f"10.0.0.{n}", "labels": {"app": f"a{n}"}} for n in (1, 2)]
services = st.fixed_dictionaries(
    {
        "hosts": some(hosts, least=1),
        "resolution": st.sampled_from(["STATIC", "STATIC", "DNS"]),
        "ports": some(st.sampled_from(PORTS)),
        "endpoints": some(st.sampled_from(ENDPOINTS)),
    },
    optional={
        "addresses": st.just(["10.1.0.9"]),
        "exportTo": some(st.sampled_from([".", "*", "b"]), least=1),
    },
) | st.fixed_dictionaries(
    {
        "hosts": some(hosts, least=1),
        "resolution": st.just("NONE"),
        "location": st.just("MESH_INTERNAL"),
        "ports": some(st.sampled_from(PORTS)),
    }
)
subsets = st.sampled_from(SUBSETS[1:])
chosen = st.sampled_from([{"app": f"a{n}"} for n in (1, 2, 3)])
policies = st.sampled_from(
    [{"portLevelSettings": [{"port": {"number": 81}}]}, {"connectionPool": {}}]
)
rules = st.fixed_dictionaries(
    {"host": hosts},
    optional={
        "trafficPolicy": policies,
        "subsets": some(
            st.builds(lambda name, app: {"name": name, "labels": app}, subsets, chosen)
        ),
        "workloadSelector": st.just({"matchLabels": {"app": "web"}}),
        "exportTo": st.just(["."]),
    },
)
destinations = st.builds(
    lambda host, subset: {"host": host, "subset": subset}, hosts, st.sampled_from(SUBSETS)
)
matches = some(
    st.sampled_from(
        [
            {"port": 80},
            {"sourceLabels": {"app": "web"}},
            {"gateways": ["mesh"]},
            {"uri": {}},
            {"uri": {"prefix": "/a"}},
            {"headers": {"@request.auth.claims.group": {"exact": "x"}}},
        ]
    )
)
http = st.one_of(
    st.fixed_dictionaries({"route": some(st.builds(lambda to: {"destination": to}, destinations))}),
    st.fixed_dictionaries({"mirror": destinations, "match": matches}),
    st.builds(lambda name: {"delegate": {"name": name}}, st.sampled_from("op")),
)
delegates = st.fixed_dictionaries({"http": some(http)})
routes = st.fixed_dictionaries(
    {"hosts": some(hosts, least=1), "http": some(http)},
    optional={
        "gateways": some(st.sampled_from(GATEWAYS)),
        "exportTo": some(st.sampled_from([".", "*"]), least=1),
        "tcp": st.lists(
            st.builds(lambda to: {"route": [{"destination": to}]}, destinations), max_size=1
        ),
    },
)
gateways = st.builds(
    lambda of, number, protocol, selector: {
        "selector": selector,
        "servers": [{"port": {"number": number, "protocol": protocol}, "hosts": of}],
    },
    some(st.sampled_from(["*", "./s.example", "b/*.other"]), least=1),
    st.sampled_from([80, 80, 443]),
    st.sampled_from(["HTTP", "HTTP", "TCP"]),
    st.sampled_from([{}, {"app": "a1"}, {"app": "a2"}]),
)
sidecars = st.fixed_dictionaries(
    {
        "egress": st.builds(
            lambda of: [{"hosts": of}],
            some(st.sampled_from(["./s.example", "*/u.other", "b/t.example"]), least=1),
        )
    },
    optional={"workloadSelector": st.builds(lambda labels: {"labels": labels}, chosen)},
)
SPECS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    SERVICE_ENTRY.name: services,
    DESTINATION_RULE.name: rules,
    VIRTUAL_SERVICE.name: routes,
    GATEWAY.name: gateways,
    SIDECAR.name: sidecars,
    AUTHORIZATION_POLICY.name: st.just(
        {"action": "CUSTOM", "provider": {"name": "none"}, "rules": [{}]}
    ),
    REQUEST_AUTHENTICATION.name: st.fixed_dictionaries(
        {"jwtRules": st.just([{"issuer": "a", "jwksUri": "https://a.example/keys"}])},
        optional={"selector": st.builds(lambda labels: {"matchLabels": labels}, chosen)},
    ),
    TELEMETRY.name: st.fixed_dictionaries(
        {"accessLogging": st.just([{"providers": [{"name": "none"}]}])},
        optional={"selector": st.builds(lambda labels: {"matchLabels": labels}, chosen)},
    ),
}
given_to_namespaces = st.fixed_dictionaries(
    {},
    optional={
        GIVEN: some(hosts, least=1).map(",".join),
        ADDRESSES: st.sampled_from(["10.1.0.0/16", "10.2.0.1"]),
    },
)
SERVICE = object_of(
    SERVICE_ENTRY,
    "x",
    {
        "hosts": ["s.example", "*.other"],
        "resolution": "STATIC",
        "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
    },
    namespace="a",
)
TRANSLATED = {"internal.istio.io/parents": "x"}


@st.composite
def drawn_object(draw: st.DrawFn) -> ConfigObject:
    """Draw an object of any kind; rules are more likely than others."""
    kind = draw(st.sampled_from([*KINDS, DESTINATION_RULE, VIRTUAL_SERVICE, VIRTUAL_SERVICE]))
    if kind is NAMESPACE:
        name, annotations = draw(namespaces), draw(given_to_namespaces)
        return object_of(kind, name, {}, namespace="", annotations=annotations)
    name = draw(st.sampled_from(NAMES[kind.name]))
    is_delegate = kind is VIRTUAL_SERVICE and name in "op"
    return object_of(
        kind,
        name,
        draw(delegates if is_delegate else SPECS[kind.name]),
        namespace=draw(namespaces),
        created=draw(st.sampled_from(["", "2020-01-01", "2021-01-01"])),
        annotations=draw(st.sampled_from([{}, {}, {}, TRANSLATED])),
    )


Edit = tuple[str, ConfigObject]
edits = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["put", "put", "delete", "move"]), drawn_object()),
        min_size=1,
        max_size=3,
    ),
    max_size=6,
)


class Mesh:
    """The objects of a mesh, and what is built from them after each edit."""

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._objects: dict[ObjectKey, ConfigObject] = {}
        self._snapshot: Snapshot | None = None
        self._model: MeshModel | None = None

    def edit(self, action: str, item: ConfigObject) -> None:
        known = self._objects.get(item.key)
        if action == "put":
            self._objects[item.key] = item
        elif action == "delete":
            self._objects.pop(item.key, None)
        elif known is not None:
            self._objects[item.key] = known.moved(by=1)

    def model(self) -> MeshModel:
        self._snapshot = self._all(self._snapshot)
        self._model = build_model(
            Facts(snapshot=self._snapshot), strict_namespaces=self._strict, before=self._model
        )
        return self._model

    def model_of_all(self) -> MeshModel:
        return build_model(Facts(snapshot=self._all(None)), strict_namespaces=self._strict)

    @property
    def snapshot(self) -> Snapshot:
        assert self._snapshot is not None
        return self._snapshot

    def _all(self, before: Snapshot | None) -> Snapshot:
        return snapshot_of([FileContent(objects=tuple(self._objects.values()))], before=before)


@settings(max_examples=300)
@given(strict=st.booleans(), first=st.lists(drawn_object(), max_size=12), batches=edits)
def test_edits_give_what_a_findings_from_the_beginning_gives(
    *, strict: bool, first: list[ConfigObject], batches: list[list[Edit]]
) -> None:
    mesh = Mesh(strict=strict)
    mesh.edit("put", SERVICE)
    for item in first:
        mesh.edit("put", item)
    model = mesh.model()
    findings, advice = review(model), advise(mesh.snapshot, model)
    labels = unmatched(mesh.snapshot, model)
    for batch in batches:
        for action, item in batch:
            mesh.edit(action, item)
        before, findings = findings, review(mesh.model(), findings)
        advice = advise(mesh.snapshot, findings.model, advice)
        labels = unmatched(mesh.snapshot, findings.model, labels)
        whole = mesh.model_of_all()
        fresh = review(whole)
        assert advice.warnings == advise(mesh.snapshot, whole).warnings
        assert labels.warnings == unmatched(mesh.snapshot, whole).warnings
        assert findings.problems == fresh.problems
        assert findings.warnings == fresh.warnings
        assert (findings.problems == before.problems) or findings.parts is not before.parts


def test_roots_and_delegates_that_come_and_go_are_reported_at_the_others() -> None:
    mesh = Mesh()
    mesh.edit("put", SERVICE)
    root = object_of(
        VIRTUAL_SERVICE, "m", {"hosts": ["s.example"], "http": [{"delegate": {"name": "o"}}]}
    )
    delegate = object_of(VIRTUAL_SERVICE, "o", {"http": [{"redirect": {"uri": "/"}}]})
    reported: list[list[str]] = []
    mesh.edit("put", root)
    findings = review(mesh.model())
    reported.append([each.field for each in findings.problems])
    for action, item in (("put", delegate), ("delete", root), ("put", root), ("delete", delegate)):
        mesh.edit(action, item)
        findings = review(mesh.model(), findings)
        reported.append([each.field for each in findings.problems])

    at_root = ["spec.http[0].delegate"]
    assert reported == [at_root, [], ["spec"], [], at_root]


def test_only_what_was_edited_is_judged_again_and_equal_findings_are_the_same_object() -> None:
    mesh = Mesh()
    route = {"hosts": ["s.example"], "http": [{"route": [{"destination": {"host": "s.example"}}]}]}
    mesh.edit("put", object_of(VIRTUAL_SERVICE, "m", route))
    before = review(mesh.model())
    assert len(before.problems) == 1
    mesh.edit("put", object_of(VIRTUAL_SERVICE, "m", {**route, "exportTo": ["."]}))

    after = review(mesh.model(), before)

    assert after.parts is before.parts


def test_a_findings_holds_no_model_but_its_own() -> None:
    mesh = Mesh()
    route = {"hosts": ["s.example"], "http": [{"route": [{"destination": {"host": "s.example"}}]}]}
    rule = {"host": "s.example"}
    models: list[weakref.ref[MeshModel]] = []
    findings: Findings | None = None
    for number in range(3):
        mesh.edit("put", object_of(SERVICE_ENTRY, "x", {"hosts": [f"s{number}.example"]}))
        mesh.edit("put", object_of(VIRTUAL_SERVICE, "m", {**route, "exportTo": [f"n{number}"]}))
        mesh.edit("put", object_of(DESTINATION_RULE, "r", {**rule, "exportTo": [f"n{number}"]}))
        findings = review(mesh.model(), findings)
        models.append(weakref.ref(findings.model))
    gc.collect()

    assert findings is not None
    assert [each() is not None for each in models] == [False, False, True]


def test_a_host_that_a_namespace_is_given_is_a_rival_of_those_of_others_until_it_is_taken() -> None:
    mesh = Mesh(strict=True)
    for namespace in NAMESPACES:
        mesh.edit("put", _namespace(namespace, addresses="10.1.0.0/16"))
        mesh.edit("put", _entry(namespace))
    findings = review(mesh.model())
    given = findings.problems
    assert [each.message.partition(", too,")[1] for each in given] == [", too,"]

    for addresses in ("10.2.0.1", "10.1.0.0/16"):
        mesh.edit("put", _namespace("b", addresses=addresses))
        findings = review(mesh.model(), findings)
        assert findings.problems == review(mesh.model_of_all()).problems
        assert (findings.problems == given) == (addresses == "10.1.0.0/16")


def test_what_is_reported_names_the_line_where_its_object_stands_now() -> None:
    mesh = Mesh(strict=True)
    mesh.edit("put", _namespace("a", addresses=""))
    service = {"hosts": ["s.example"], "resolution": "STATIC", "ports": PORTS[2:3]}
    provider = {"name": "none"}
    custom = {"action": "CUSTOM", "provider": provider, "rules": [{}]}
    items = [
        object_of(SERVICE_ENTRY, "x", service, namespace="a"),
        object_of(AUTHORIZATION_POLICY, "c", custom, namespace="a"),
        object_of(TELEMETRY, "t", {"accessLogging": [{"providers": [provider]}]}, namespace="a"),
    ]
    for item in items:
        mesh.edit("put", item)
    findings = review(mesh.model())
    assert [each.line for each in (*findings.problems, *findings.warnings)] == [1, 1, 1]

    for item in items:
        mesh.edit("move", item)
    findings = review(mesh.model(), findings)
    assert [each.line for each in (*findings.problems, *findings.warnings)] == [2, 2, 2]


def _namespace(name: str, *, addresses: str) -> ConfigObject:
    annotations = {GIVEN: "s.example", ADDRESSES: addresses}
    return object_of(NAMESPACE, name, {}, namespace="", annotations=annotations)


def _entry(namespace: str) -> ConfigObject:
    spec = {
        "hosts": ["s.example"],
        "addresses": ["10.1.0.9"],
        "resolution": "STATIC",
        "ports": PORTS[:1],
    }
    return object_of(SERVICE_ENTRY, "x", spec, namespace=namespace)


def test_an_edited_route_has_no_other_looked_at_for_its_claims_ports_and_subsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mesh = Mesh()
    mesh.edit("put", SERVICE)
    routes = {
        name: {
            "hosts": ["s.example"],
            "http": [{"route": [{"destination": {"host": "s.example", "subset": name}}]}],
        }
        for name in "mn"
    }
    for name, spec in routes.items():
        mesh.edit("put", object_of(VIRTUAL_SERVICE, name, spec))
    model = mesh.model()
    advice, labels = advise(mesh.snapshot, model), unmatched(mesh.snapshot, model)
    mesh.edit("put", object_of(VIRTUAL_SERVICE, "m", {**routes["m"], "exportTo": ["."]}))
    model = mesh.model()

    looked_at: list[str] = []

    def noting(module: ModuleType, name: str) -> None:
        found = getattr(module, name)

        def noted(items: Iterable[ConfigObject], *rest: object) -> object:
            items = tuple(items)
            looked_at.extend(each.name for each in items)
            return found(items, *rest)

        monkeypatch.setattr(module, name, noted)

    noting(_unmatched_labels, "empty_subsets_of")
    noting(_advice, "written")
    unmatched(mesh.snapshot, model, labels)
    assert looked_at == ["m"]
    advise(mesh.snapshot, model, advice)
    assert set(looked_at) == {"m"}


def test_a_subset_that_its_rule_gives_other_labels_is_looked_at_again() -> None:
    mesh = Mesh()
    port = {"number": 80, "name": "http", "protocol": "HTTP"}
    service = {"hosts": ["s.example"], "resolution": "STATIC", "ports": [port]}
    for item in (
        object_of(SERVICE_ENTRY, "s", {**service, "endpoints": ENDPOINTS}),
        object_of(
            VIRTUAL_SERVICE,
            "m",
            {
                "hosts": ["s.example"],
                "http": [{"route": [{"destination": {"host": "s.example", "subset": "v1"}}]}],
            },
        ),
    ):
        mesh.edit("put", item)

    labels: Unmatched | None = None
    reported = []
    for app in ("a1", "a3", "a2"):
        subset = {"name": "v1", "labels": {"app": app}}
        mesh.edit(
            "put", object_of(DESTINATION_RULE, "q", {"host": "s.example", "subsets": [subset]})
        )
        model = mesh.model()
        labels = unmatched(mesh.snapshot, model, labels)
        reported.append([each.code for each in labels.warnings])
    assert reported == [[], ["IST0173"], []]
