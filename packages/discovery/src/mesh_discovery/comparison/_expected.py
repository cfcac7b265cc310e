"""Resources that a push context gives a proxy which asks for all that it is sent, as JSON."""

from collections.abc import Iterable, Mapping

from google.protobuf import any_pb2, json_format

from envoy_config import Proxy, PushContext
from mesh_discovery.comparison._differences import endpoints_asked_for, routes_asked_for
from mesh_discovery.comparison._held import CLUSTER, ENDPOINT, LISTENER, ROUTE, Json
from xds_server import Resource


def expected_of(context: PushContext, proxy: Proxy) -> Mapping[str, Mapping[str, Json]]:
    """Return the resources of a proxy by type and name, with the endpoints and routes they need."""
    clusters = _by_name(context.clusters(proxy).resources)
    listeners = _by_name(context.listeners(proxy).resources)
    endpoints = context.endpoints(proxy, endpoints_asked_for(clusters))
    routes = context.routes(proxy, routes_asked_for(listeners))
    return {
        CLUSTER: clusters,
        ENDPOINT: _by_name(endpoints.resources),
        LISTENER: listeners,
        ROUTE: _by_name(routes.resources),
    }


def _by_name(resources: Iterable[Resource]) -> dict[str, Json]:
    return {each.name: as_json(each) for each in resources}


def as_json(resource: Resource) -> Json:
    """Return a resource as Envoy's admin port tells it, without the type."""
    message = any_pb2.Any(type_url=resource.type_url, value=resource.body)
    found: Json = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return {key: value for key, value in found.items() if key != "@type"}
