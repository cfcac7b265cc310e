"""Services, VirtualServices and what a Sidecar can bring in of them."""

from collections.abc import Sequence

from istio_config import ConfigObject, InFile
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from istio_config.kinds.virtual_service import (
    VIRTUAL_SERVICE,
    Destination,
    HttpMatch,
    HttpRoute,
    HttpRouteDestination,
    PortSelector,
    VirtualServiceSpec,
)
from mesh_model._services import Port, Registry, Service
from mesh_model._visibility import visible_services
from mesh_model.sidecars._imports import Imports
from mesh_model.sidecars._indices import Indices
from mesh_model.virtual_services._virtual_services import VirtualServices
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
    indices = Indices(services, VirtualServices.build(routes, VIRTUAL_SERVICES))
    return Imports(
        namespace=namespace,
        by_key=Counted({(each.namespace, each.host): each for each in services}),
        services=indices.services,
        virtual_services=indices.virtual_services,
        aliased=indices.aliased,
        visible=lambda namespace: visible_services(services, namespace),
        providers=providers,
    )
