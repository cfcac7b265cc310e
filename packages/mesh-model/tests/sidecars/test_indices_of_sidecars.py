"""The indices of Sidecars find what looking at everything finds."""

from collections.abc import Iterator, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from istio_config import ConfigObject
from istio_config.host_patterns import has, overlaps
from istio_config.kinds.sidecar import EgressListener, SidecarPort, SidecarSpec
from mesh_model._services import Registry, Service
from mesh_model.sidecars._imports import egress_listeners
from mesh_model.virtual_services._virtual_services import VirtualServices
from mesh_settings import VIRTUAL_SERVICES
from sidecar_imports import imports, route, service

NAMESPACES = ["shop", "other", "third"]
HOSTS = ["a.x", "b.x", "c.b.x", "x", "*.x", "*.b.x", "a.y", "*.y", "*", "*b.x"]
PATTERNS = [*HOSTS, "*.c.b.x", "z", "*x"]
EXPORTS = [["*"], ["."], ["~"], ["shop"], ["other", "third"], []]


@st.composite
def meshes(draw: st.DrawFn) -> tuple[list[Service], list[ConfigObject], list[str], str, int | None]:
    keys = draw(
        st.lists(
            st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(HOSTS)), unique=True, max_size=9
        )
    )
    services = [
        service(
            host,
            namespace,
            draw(st.sampled_from([(80,), (80, 81), (81,)])),
            draw(st.sampled_from(EXPORTS[:-1])),
            draw(st.sampled_from(Registry)),
        )
        for namespace, host in keys
    ]
    routes = [
        route(
            f"v{index}",
            draw(st.lists(st.sampled_from(HOSTS), min_size=1, max_size=2, unique=True)),
            [(draw(st.sampled_from(["a.x", "b.x", "a.y"])), draw(st.sampled_from([None, 80])))],
            namespace=draw(st.sampled_from(NAMESPACES)),
            export_to=draw(st.sampled_from(EXPORTS)),
            only_from=draw(st.sampled_from(["", "shop"])),
        )
        for index in range(draw(st.integers(0, 4)))
    ]
    places = st.sampled_from([*NAMESPACES, ".", "*", "*", "~", "~other"])
    hosts = draw(
        st.lists(
            st.builds("{}/{}".format, places, st.sampled_from(PATTERNS)), min_size=1, max_size=4
        )
    )
    return (
        services,
        routes,
        hosts,
        draw(st.sampled_from(NAMESPACES)),
        draw(st.sampled_from([None, None, 80])),
    )


def naive_services(
    services: Sequence[Service], hosts: Sequence[str], namespace: str, port: int | None
) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield namespace, host and ports of what a listener has, by the rules as documented."""

    def is_in(each: Service, entry: str) -> bool:
        place, _, pattern = entry.removeprefix("~").partition("/")
        place = {"": "*", ".": namespace}.get(place, place)
        return place in ("*", each.namespace) and has(pattern, each.host)

    matching = [
        each
        for each in services
        if each.visible_in(namespace)
        and any(is_in(each, host) for host in hosts if not host.startswith("~"))
        and not any(is_in(each, host) for host in hosts if host.startswith("~"))
        and (port is None or each.port(port) is not None)
    ]
    for each in matching:
        rivals = [other for other in matching if other.host == each.host]
        best = min(
            rivals,
            key=lambda one: (
                one.namespace != namespace,
                one.registry is not Registry.KUBERNETES,
                rivals.index(one),
            ),
        )
        if best is each:
            numbers = tuple(p.number for p in each.ports if port in (None, p.number))
            yield each.namespace, each.host, numbers


def naive_routes(routes: VirtualServices, hosts: Sequence[str], namespace: str) -> Iterator[str]:
    for each in routes.of_mesh(namespace):
        chosen = False
        for entry in hosts:
            place, _, pattern = entry.removeprefix("~").partition("/")
            place = {"": "*", ".": namespace}.get(place, place)
            here = place in ("*", each.namespace)
            if entry.startswith("~"):
                if here and all(has(pattern, host) for host in each.hosts):
                    break
            elif here and any(overlaps(pattern, host) for host in each.hosts):
                chosen = True
        else:
            if chosen:
                yield each.name


@settings(max_examples=300, deadline=None)
@given(meshes())
def test_indices_find_what_looking_at_everything_finds(
    mesh: tuple[list[Service], list[ConfigObject], list[str], str, int | None],
) -> None:
    services, routes, hosts, namespace, port = mesh
    given = imports(services, routes, namespace)
    of_port = SidecarPort(number=port) if port is not None else None
    spec = SidecarSpec(egress=(EgressListener(hosts=tuple(hosts), port=of_port),))

    (listener,) = egress_listeners(spec, given)

    found = [
        (each.namespace, each.host, tuple(p.number for p in each.ports))
        for each in listener.services
    ]
    assert found == list(naive_services(services, hosts, namespace, port))
    assert [each.name for each in listener.virtual_services] == list(
        naive_routes(VirtualServices.build(routes, VIRTUAL_SERVICES), hosts, namespace)
    )
