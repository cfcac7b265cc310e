"""Meshes of Gateway API objects, translated, and what requests meet in the translation."""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import yaml

from gateway_api_specs import KIND
from istio_config import ConfigObject, InFile
from istio_config.kinds.gateway import GatewaySpec
from istio_config.kinds.kubernetes import SecretFields
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from istio_config.kinds.virtual_service import HttpMatch, HttpRoute, StringMatch, VirtualServiceSpec
from mesh_model._services import Port, Service
from mesh_model._visibility import NO_OWNERS
from mesh_model.gateway_api._surroundings import MeshFacts
from mesh_model.gateway_api._translation import GatewayApi
from mesh_model.secrets import Secrets
from mesh_model.virtual_services._virtual_services import VirtualService, VirtualServices
from mesh_settings import DOMAIN, VIRTUAL_SERVICES
from mesh_testkit.certificates import Authority

CLUSTER = ".svc.cluster.local"


def objects_of(text: str) -> tuple[ConfigObject, ...]:
    """Read documents that have no mistakes; the namespace is `shop` unless they say another."""
    found = []
    for number, document in enumerate(yaml.safe_load_all(text)):
        given = document["metadata"]
        kind = KIND[document["kind"]]
        namespace = given.get("namespace", "shop")
        metadata = Metadata(name=given["name"], namespace=namespace)
        body = kind.read(document["spec"], ("spec",), metadata)
        spec, mistakes = body.spec, body.mistakes
        assert spec is not None, mistakes
        assert not mistakes, mistakes
        found.append(
            ConfigObject(
                kind=kind.name,
                group=kind.group,
                namespace=namespace,
                name=given["name"],
                spec=spec,
                created=given.get("created", ""),
                origin=InFile("mesh.yaml", number + 1),
            )
        )
    return tuple(found)


def service(name: str, *ports: int, namespace: str = "shop") -> Service:
    return Service(
        host=f"{name}.{namespace}{CLUSTER}",
        namespace=namespace,
        name=name,
        ports=tuple(
            Port(number=each, name=f"http-{each}", protocol=Protocol.HTTP, target=each)
            for each in ports
        ),
        resolution=Resolution.STATIC,
        external=False,
    )


def aliased(target: Service, name: str, *, port: int | None = None) -> Service:
    """Return a service with an ExternalName service that stands for it, with a port of its own."""
    host = f"{name}.{target.namespace}{CLUSTER}"
    return replace(
        target,
        aliases=((target.namespace, host),),
        alias_ports=((host, port),) if port is not None else (),
    )


SERVICES = (
    service("cart", 80, 81),
    service("cart-next", 80),
    service("log", 80),
    service("stock", 80, namespace="depot"),
)


@functools.cache
def _secrets() -> Secrets:
    """Make the Secrets shop of the namespaces shop and certs."""
    issued = Authority().issue("shop.example")
    values = {"tls.crt": issued.chain_pem.decode(), "tls.key": issued.key_pem.decode()}
    return Secrets.build(
        tuple(
            ConfigObject(
                kind="Secret",
                namespace=namespace,
                name="shop",
                spec=SecretFields(string_data=values),
                origin=InFile("secrets.yaml", 1),
            )
            for namespace in ("shop", "certs")
        )
    )


def mesh_facts(
    services: Iterable[Service] = SERVICES,
    *,
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
) -> MeshFacts:
    return MeshFacts(
        services={(each.namespace, each.host): each for each in services},
        namespaces=[
            ConfigObject(
                kind="Namespace",
                namespace="default",
                name=name,
                spec=GatewaySpec(),
                labels=tuple(labels.items()),
                origin=InFile("namespaces.yaml", 1),
            )
            for name, labels in (namespaces or {}).items()
        ],
        secrets=_secrets(),
        domain=DOMAIN,
        owners=NO_OWNERS,
    )


@dataclass
class Translated:
    """A translation, with questions that tests ask."""

    api: GatewayApi
    by_host: dict[tuple[str, str], VirtualServiceSpec] = field(default_factory=dict)
    """The VirtualServices by the gateway without its namespace, and the host."""

    def routes(self, listener: str, host: str) -> tuple[HttpRoute, ...]:
        return self.by_host[listener, host].http

    def hosts(self, listener: str) -> set[str]:
        return {host for name, host in self.by_host if name == listener}

    def servers(self) -> dict[str, GatewaySpec]:
        """Return Istio's Gateways by the name of the listener."""
        return {
            each.name.rpartition("-")[2]: each.spec
            for each in self.api.gateways
            if isinstance(each.spec, GatewaySpec)
        }

    def conditions(self, kind: str, name: str) -> list[str]:
        """Return the conditions of an object, of its listeners and of its parents."""
        (status,) = (each for each in self.api.statuses if (each.kind, each.name) == (kind, name))
        inner = [each for one in status.listeners for each in one.conditions]
        inner += [each for one in status.parents for each in one.conditions]
        return [f"{each.type}={each.status} {each.reason}" for each in (*status.conditions, *inner)]

    @property
    def warnings(self) -> list[str]:
        return [str(each) for each in self.api.warnings]


def translated(
    text: str, facts: MeshFacts | None = None, before: GatewayApi | None = None
) -> Translated:
    translation = Translated(GatewayApi.build(objects_of(text), facts or mesh_facts(), before))
    for each in translation.api.virtual_services:
        assert isinstance(each.spec, VirtualServiceSpec)
        for gateway in each.spec.gateways:
            listener = gateway.rpartition("-")[2] if gateway != "mesh" else "mesh"
            for host in each.spec.hosts:
                translation.by_host[listener, host] = each.spec
    return translation


def virtual_services_of(text: str) -> tuple[VirtualService, ...]:
    """Return the VirtualServices that documents are translated to, as they are in effect."""
    return VirtualServices.build(translated(text).api.virtual_services, VIRTUAL_SERVICES).all


@dataclass(frozen=True)
class Request:
    """A request, as far as routes look at it."""

    path: str = "/"
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)


def first_route(routes: Iterable[HttpRoute], request: Request) -> HttpRoute | None:
    """Return the route that Envoy would take: the first that matches."""
    return next(
        (each for each in routes if any(_matches(match, request) for match in each.match)), None
    )


def _matches(match: HttpMatch, request: Request) -> bool:
    return (
        (match.uri is None or path_matches(match.uri, request.path))
        and (match.method is None or match.method.exact == request.method)
        and all(_value(each, request.headers.get(name)) for name, each in match.headers.items())
        and all(_value(each, request.query.get(name)) for name, each in match.query_params.items())
    )


def path_matches(uri: StringMatch, path: str) -> bool:
    """Match as routes of the Gateway API are: prefixes are of whole path elements."""
    if uri.prefix is None:
        return _value(uri, path)
    if uri.prefix.endswith("/"):
        return path.startswith(uri.prefix)
    return path == uri.prefix or path.startswith(f"{uri.prefix}/")


def _value(match: StringMatch, value: str | None) -> bool:
    if value is None:
        return False
    if match.exact is not None:
        return value == match.exact
    return match.regex is None or re.fullmatch(match.regex, value) is not None
