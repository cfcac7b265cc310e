"""Finds what Envoy refuses in patched routes, beside the constraints of its API.

Seen with Envoy 1.36 and 1.40.
"""

from collections import Counter
from collections.abc import Iterator

from envoy_config.generate._messages import route_pb2
from envoy_config.patch._merging import Configured
from istio_config.kinds.formats import header_value_mistake

_ADDED = ("request_headers_to_add", "response_headers_to_add", "headers_to_add")
_MOST_BYTES = 4096
"""Of a direct response, unless the table says another number."""
_REMOVED = ("request_headers_to_remove", "response_headers_to_remove")


def table_mistakes(configuration: route_pb2.RouteConfiguration) -> Iterator[str]:
    """Yield what Envoy refuses in a table of routes, wherever it stands."""
    domains = Counter(each.lower() for host in configuration.virtual_hosts for each in host.domains)
    for domain, count in domains.items():
        if count > 1:
            yield f"two virtual hosts have the domain {domain}"
    yield from header_mistakes(configuration)
    plugins = {each.extension.name for each in configuration.cluster_specifier_plugins}
    most = _MOST_BYTES
    if configuration.HasField("max_direct_response_body_size_bytes"):
        most = configuration.max_direct_response_body_size_bytes.value
    for host in configuration.virtual_hosts:
        yield from header_mistakes(host)
        for route in host.routes:
            body = route.direct_response.body
            size = len(body.inline_string.encode()) or len(body.inline_bytes)
            if size > most:
                yield f"the body of a direct response has {size} bytes; {most} at most are taken"
            yield from header_mistakes(route)
            for cluster in route.route.weighted_clusters.clusters:
                yield from header_mistakes(cluster)
            plugin = route.route.cluster_specifier_plugin
            if plugin and plugin not in plugins:
                yield f"the route {route.name} has the cluster_specifier_plugin {plugin}, of none"


def header_mistakes(message: Configured) -> Iterator[str]:
    """Look at operations on headers: of a table, a virtual host, a route, a cluster, a reply."""
    for field in (each for each in _ADDED if each in message.DESCRIPTOR.fields_by_name):
        for each in getattr(message, field):
            key, value = each.header.key, each.header.value
            default = each.append_action == each.APPEND_IF_EXISTS_OR_ADD
            if each.HasField("append") and not default:
                yield f"{field}: append of {key} excludes append_action"
            if key.startswith(":") or key.lower() == "host":
                yield f"{field}: {key} can't be changed"
            elif (wrong := header_value_mistake(value)) is not None:
                yield f"{field}: the value of {key} {wrong}"
    for field in (each for each in _REMOVED if each in message.DESCRIPTOR.fields_by_name):
        for key in getattr(message, field):
            if key.startswith(":") or key.lower() == "host":
                yield f"{field}: {key} can't be removed"
