"""A config dump of what a proxy is given now, as an Envoy's own would show it.

Source: envoy/admin/v3/config_dump.proto and config_dump_shared.proto; the choice of sections is
that of Istio's page.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf import any_pb2, json_format

from envoy_config import Proxy, PushContext
from mesh_discovery.debug._redaction import without_secrets
from mesh_discovery.push._secrets import SecretsGenerator
from mesh_protos import type_urls
from xds_server import ClientStatus, Generated, Node, Resource

if TYPE_CHECKING:
    from envoy.admin.v3 import config_dump_pb2
    from google.protobuf.message import Message

SHORT_TYPES: Mapping[str, str] = {
    "cds": type_urls.CLUSTER,
    "lds": type_urls.LISTENER,
    "rds": type_urls.ROUTE,
    "eds": type_urls.ENDPOINT,
    "sds": type_urls.SECRET,
    "ecds": type_urls.EXTENSION_CONFIG,
    "nds": type_urls.NAME_TABLE,
}
"""Istio's short names of types, for `?types=`."""


class Given(NamedTuple):
    """A connected proxy, and from what its resources are generated."""

    client: ClientStatus
    proxy: Proxy
    context: PushContext
    secrets: SecretsGenerator

    def resources(self, type_url: str) -> Sequence[Resource]:
        """Return the resources of a type that the proxy watches, without keys and passwords.

        Its name table is returned in any case.
        """
        if type_url == type_urls.NAME_TABLE:  # as it would be if an agent asked for it
            return self.context.names(self.proxy).resources
        status = self.client.types.get(type_url)
        if status is None:
            return ()
        found = self._generate(type_url, status.names)
        return [without_secrets(each) for each in found]

    def _generate(self, type_url: str, names: frozenset[str]) -> Sequence[Resource]:
        context, proxy = self.context, self.proxy
        if type_url == type_urls.SECRET:
            return self.secrets.found(proxy, self.client.identities, names)
        if type_url == type_urls.EXTENSION_CONFIG:
            return context.extensions(proxy, names).resources
        if proxy.is_proxyless:
            return _of_proxyless(context, proxy, type_url, names).resources
        return _of_envoy(context, proxy, type_url, names).resources


def _of_envoy(
    context: PushContext, proxy: Proxy, type_url: str, names: frozenset[str]
) -> Generated:
    if type_url == type_urls.CLUSTER:
        return context.clusters(proxy)
    if type_url == type_urls.LISTENER:
        return context.listeners(proxy)
    if type_url == type_urls.ROUTE:
        return context.routes(proxy, names)
    return context.endpoints(proxy, names)


def _of_proxyless(
    context: PushContext, proxy: Proxy, type_url: str, names: frozenset[str]
) -> Generated:
    generators = {
        type_urls.CLUSTER: context.proxyless.clusters,
        type_urls.LISTENER: context.proxyless.listeners,
        type_urls.ROUTE: context.proxyless.routes,
        type_urls.ENDPOINT: context.proxyless.endpoints,
    }[type_url]
    return generators(proxy, names)


def sections(given: Given, *, with_endpoints: bool) -> Sequence[Resource]:
    """Return the sections of a config dump, each a message of its own."""
    from envoy.admin.v3 import config_dump_pb2
    from envoy.admin.v3 import config_dump_shared_pb2 as shared

    bootstrap = config_dump_pb2.BootstrapConfigDump()
    _write_node(bootstrap, given.client.node)
    clusters = shared.ClustersConfigDump(version_info=_version(given, type_urls.CLUSTER))
    for each in given.resources(type_urls.CLUSTER):
        clusters.dynamic_active_clusters.add(
            version_info=clusters.version_info, cluster=_packed(each)
        )
    listeners = shared.ListenersConfigDump(version_info=_version(given, type_urls.LISTENER))
    for each in given.resources(type_urls.LISTENER):
        added = listeners.dynamic_listeners.add(name=each.name)
        added.active_state.version_info = listeners.version_info
        added.active_state.listener.CopyFrom(_packed(each))
    routes = shared.RoutesConfigDump()
    for each in given.resources(type_urls.ROUTE):
        routes.dynamic_route_configs.add(
            version_info=_version(given, type_urls.ROUTE), route_config=_packed(each)
        )
    secrets = config_dump_pb2.SecretsConfigDump()
    for each in given.resources(type_urls.SECRET):
        secrets.dynamic_active_secrets.add(
            name=each.name,
            version_info=_version(given, type_urls.SECRET),
            secret=_packed(each),
        )
    extensions = shared.EcdsConfigDump()
    for each in given.resources(type_urls.EXTENSION_CONFIG):
        extensions.ecds_filters.add(
            version_info=_version(given, type_urls.EXTENSION_CONFIG), ecds_filter=_packed(each)
        )
    found: list[Message] = [bootstrap, clusters]
    if with_endpoints:
        endpoints = shared.EndpointsConfigDump()
        for each in given.resources(type_urls.ENDPOINT):
            endpoints.dynamic_endpoint_configs.add(
                version_info=_version(given, type_urls.ENDPOINT), endpoint_config=_packed(each)
            )
        found.append(endpoints)
    found += [listeners, shared.ScopedRoutesConfigDump(), routes, secrets, extensions]
    return [Resource.pack(each, name=each.DESCRIPTOR.name) for each in found]


def as_json(found: Iterable[Resource]) -> dict[str, object]:
    """Return sections or resources as the JSON of a config dump, in Envoy's spelling."""
    return {
        "configs": [
            json_format.MessageToDict(_packed(each), preserving_proto_field_name=True)
            for each in found
        ]
    }


def _packed(resource: Resource) -> any_pb2.Any:
    return any_pb2.Any(type_url=resource.type_url, value=resource.body)


def _version(given: Given, type_url: str) -> str:
    status = given.client.types.get(type_url)
    return "" if status is None else status.version_sent


def _write_node(dump: "config_dump_pb2.BootstrapConfigDump", node: Node) -> None:
    """Say who the proxy is: the rest of its bootstrap is known to it alone."""
    written = dump.bootstrap.node
    written.id, written.cluster = node.id, node.cluster
    written.user_agent_name, _, written.user_agent_version = node.user_agent.partition("/")
    json_format.ParseDict(dict(node.metadata), written.metadata)
    written.locality.region = node.region
    written.locality.zone = node.zone
    written.locality.sub_zone = node.sub_zone
