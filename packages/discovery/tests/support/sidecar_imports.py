"""Services, VirtualServices and what a Sidecar can bring in of them."""

from collections.abc import Sequence

from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config._origins import InFile
from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.config.kinds._service_entry import Resolution
from mesh_discovery.config.kinds.virtual_service._destinations import (
    Destination,
    HttpRouteDestination,
    PortSelector,
)
from mesh_discovery.config.kinds.virtual_service._kind import VIRTUAL_SERVICE
from mesh_discovery.config.kinds.virtual_service._matches import HttpMatch
from mesh_discovery.config.kinds.virtual_service._spec import HttpRoute, VirtualServiceSpec
from mesh_discovery.model._services import Port, Registry, Service
from mesh_discovery.model.namespaces._visibility import visible_services
from mesh_discovery.model.sidecars._imports import Imports
from mesh_discovery.model.sidecars._indices import Indices
from mesh_discovery.model.virtual_services._virtual_services import VirtualServices
from mesh_settings import VIRTUAL_SERVICES


def service(
    host: str,
    namespace: str = "shop",
    ports: Sequence[int] = (80,),
    export_to: Sequence[str] = ("*",),
    registry: Registry = Registry.EXTERNAL,
) -> Service:
    return Service(
        host=host,
        namespace=namespace,
        name=host,
        ports=tuple(
            Port(number=number, name=f"http-{number}", protocol=Protocol.HTTP, target=number)
            for number in ports
        ),
        resolution=Resolution.STATIC,
        external=False,
        export_to=tuple(export_to),
        registry=registry,
    )


def route(
    name: str,
    hosts: Sequence[str],
    to: Sequence[tuple[str, int | None]],
    *,
    namespace: str = "shop",
    export_to: Sequence[str] = (),
    only_from: str = "",
) -> ConfigObject:
    destinations = tuple(
        HttpRouteDestination(
            destination=Destination(
                host=host, port=PortSelector(number=port) if port is not None else None
            )
        )
        for host, port in to
    )
    match = (HttpMatch(source_namespace=only_from),) if only_from else ()
    return ConfigObject(
        kind=VIRTUAL_SERVICE.name,
        group=VIRTUAL_SERVICE.group,
        namespace=namespace,
        name=name,
        spec=VirtualServiceSpec(
            hosts=tuple(hosts),
            http=(HttpRoute(match=match, route=destinations),),
            export_to=tuple(export_to),
        ),
        origin=InFile("x.yaml", 1),
    )


class Counted(dict[tuple[str, str], Service]):
    """Services by their keys, with how often one is looked up."""

    lookups = 0

    def __getitem__(self, key: tuple[str, str]) -> Service:
        self.lookups += 1
        return super().__getitem__(key)


def imports(
    services: Sequence[Service],
    routes: Sequence[ConfigObject] = (),
    namespace: str = "shop",
    *,
    providers: Sequence[tuple[str, int]] = (),
) -> Imports:
    indices = Indices(services, VirtualServices.of(routes, VIRTUAL_SERVICES))
    return Imports(
        namespace=namespace,
        by_key=Counted({(each.namespace, each.host): each for each in services}),
        services=indices.services,
        virtual_services=indices.virtual_services,
        visible=lambda namespace: visible_services(services, namespace),
        providers=providers,
    )
