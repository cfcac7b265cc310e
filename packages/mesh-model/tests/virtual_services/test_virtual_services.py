"""VirtualServices of a mesh: names completed, delegates in place, in their order."""

from collections.abc import Sequence

from istio_config import ConfigObject, InFile
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE
from mesh_configfile import read_documents
from mesh_model.virtual_services._virtual_services import VirtualService, VirtualServices
from mesh_settings import VIRTUAL_SERVICES


def object_of(name: str, spec: str, namespace: str = "a") -> ConfigObject:
    """Return an object of a spec in YAML."""
    ((document, *_), problems) = read_documents(spec, file="x.yaml")
    assert not problems
    metadata = Metadata(name=name, namespace=namespace)
    body = VIRTUAL_SERVICE.read(document.value, (), metadata)
    read, mistakes = body.spec, body.mistakes
    assert read is not None, mistakes
    assert mistakes == []
    return ConfigObject(
        kind=VIRTUAL_SERVICE.name,
        group=VIRTUAL_SERVICE.group,
        namespace=namespace,
        name=name,
        spec=read,
        origin=InFile("x.yaml", 1),
    )


def only(objects: Sequence[ConfigObject]) -> VirtualService:
    (found,) = VirtualServices.build(objects, VIRTUAL_SERVICES).all
    return found


ROUTE = "route: [{destination: {host: r}}]"


def names(found: Sequence[VirtualService]) -> list[str]:
    return [each.name for each in found]


def test_short_names_are_completed_by_the_objects_namespace() -> None:
    found = only(
        [
            object_of(
                "v",
                """
                hosts: [Reviews, r.example, '*.x', 10.0.0.1]
                gateways: [mesh, g, ./h, n/i, j.m.svc.x]
                http:
                - match: [{gateways: [g]}]
                  route:
                  - {destination: {host: reviews, subset: v1}}
                  - {destination: {host: b.c}, weight: 1}
                  mirrors: [{destination: {host: copy}}]
                - {route: [{destination: {host: r}}], mirror: {host: copy}}
                """,
            )
        ]
    )

    assert found.hosts == ("reviews.a.svc.cluster.local", "r.example", "*.x", "10.0.0.1")
    assert found.gateways == ("mesh", "a/g", "a/h", "n/i", "m/j")
    first, second = found.spec.http
    assert first.match[0].gateways == ("a/g",)
    assert [each.destination and each.destination.host for each in first.route] == [
        "reviews.a.svc.cluster.local",
        "b.c",
    ]
    copies = [each.destination for each in first.mirrors] + [second.mirror]
    assert [each and each.host for each in copies] == ["copy.a.svc.cluster.local"] * 2


def test_own_ones_come_before_those_exported_by_name_and_those_before_public_ones() -> None:
    objects = [
        object_of("public", "{hosts: [r], http: [{" + ROUTE + "}]}", "b"),
        object_of("named", "{hosts: [r], exportTo: [c, a], http: [{" + ROUTE + "}]}", "b"),
        object_of("own", "{hosts: [r], exportTo: [.], http: [{" + ROUTE + "}]}"),
        object_of("hidden", "{hosts: [r], exportTo: ['~'], http: [{" + ROUTE + "}]}"),
        object_of("elsewhere", "{hosts: [r], gateways: [g], http: [{" + ROUTE + "}]}"),
        object_of("younger", "{hosts: [r], gateways: [mesh, g], http: [{" + ROUTE + "}]}"),
    ]
    found = VirtualServices.build(objects, VIRTUAL_SERVICES)

    assert names(found.of_mesh("a")) == ["own", "named", "public", "younger"]
    assert names(found.of_mesh("b")) == ["public", "younger"]
    assert names(found.of_gateway("a/g", "b")) == ["elsewhere", "younger"]
    assert names(found.of_gateway("b/g", "b")) == []


def test_the_meshs_default_holds_for_those_that_say_nothing_of_export() -> None:
    found = VirtualServices.build(
        [object_of("v", "{hosts: [r], http: [{" + ROUTE + "}]}")],
        VIRTUAL_SERVICES._replace(export_to=(".",)),
    )

    assert names(found.of_mesh("a")) == ["v"]
    assert names(found.of_mesh("b")) == []


def test_the_routes_of_a_delegate_stand_where_its_root_named_it() -> None:
    root = object_of(
        "root",
        """
        hosts: [r]
        http:
        - {name: n, match: [{uri: {prefix: /r}}], delegate: {name: d, namespace: b}, timeout: 1s}
        - {name: rest, route: [{destination: {host: r}}]}
        """,
    )
    delegate = object_of(
        "d",
        """
        http:
        - {name: a, match: [{uri: {exact: /r/a}}], route: [{destination: {host: x}}]}
        - {match: [{uri: {prefix: /r/b}}, {uri: {prefix: /q}}], route: [{destination: {host: x}}]}
        - {route: [{destination: {host: x}}], timeout: 2s}
        """,
        "b",
    )
    found = only([root, delegate])

    assert [(each.name, each.timeout) for each in found.spec.http] == [
        ("n-a", 1.0),
        ("n", 2.0),
        ("rest", None),
    ]
    host = found.spec.http[0].route[0].destination
    assert host is not None
    assert host.host == "x.b.svc.cluster.local"
    ((path, message),) = found.unused
    assert path == ("http", 0, "delegate")
    assert message.startswith("http[1] of d is left out: one of its matches has no request in comm")


def test_a_delegate_that_is_not_there_or_not_exported_leaves_its_route_empty() -> None:
    root = object_of(
        "root",
        "{hosts: [r], http: [{delegate: {name: d, namespace: b}}, {delegate: {name: e}}]}",
    )
    private = object_of("d", "{exportTo: [.], http: [{" + ROUTE + "}]}", "b")
    found = only([root, private])

    assert found.spec.http == ()
    assert [message.partition(" that is")[0] for _, message in found.unused] == [
        "there is no VirtualService b/d without hosts",
        "there is no VirtualService e without hosts",
    ]


def test_what_does_not_change_stays_the_same_object() -> None:
    root = object_of("root", "{hosts: [r], http: [{delegate: {name: d}}]}")
    delegate = object_of("d", "{http: [{" + ROUTE + "}]}")
    other = object_of("other", "{hosts: [s], http: [{" + ROUTE + "}]}")
    before = VirtualServices.build([root, other, delegate], VIRTUAL_SERVICES)
    edited = object_of("d", "{http: [{" + ROUTE + "}, {" + ROUTE + "}]}")
    after = VirtualServices.build([root, other, edited], VIRTUAL_SERVICES, before=before)

    assert (
        VirtualServices.build([root.moved(3), other, delegate], VIRTUAL_SERVICES, before=before)
        is before
    )
    assert [one is other for one, other in zip(before.all, after.all, strict=True)] == [False, True]
    assert len(after.all[0].spec.http) == 2


def test_the_labels_of_sources_are_known() -> None:
    found = VirtualServices.build(
        [
            object_of(
                "v", "{hosts: [r], http: [{match: [{sourceLabels: {app: x}}], " + ROUTE + "}]}"
            ),
            object_of("w", "{hosts: [s], tcp: [{match: [{sourceLabels: {v: x}}], " + ROUTE + "}]}"),
        ],
        VIRTUAL_SERVICES,
    )

    assert found.source_labels == {"app", "v"}
    assert [each.looks_at_source for each in found.all] == [True, False]
