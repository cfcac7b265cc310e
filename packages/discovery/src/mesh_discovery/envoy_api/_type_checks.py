"""Demands of Envoy on messages of some types that no constraint of its API states.

Seen with Envoy 1.40.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any as Unchecked

import re2
from google.protobuf.descriptor import Descriptor

from mesh_discovery._expression_cost import MAX_OBJECT_COST, compile_cost

TypeCheck = Callable[[Unchecked], tuple[str, str] | None]
"""Returns the field of a message that is wrong, and what is wrong with it."""


def type_checks(descriptor: Descriptor) -> tuple[TypeCheck, ...]:
    """Return the checks of a type."""
    found = _OF_TYPES.get(descriptor.full_name, ())
    choice = descriptor.oneofs_by_name.get("config_type")
    if choice is not None and any(each.name == "typed_config" for each in choice.fields):
        return (*found, _has_config)
    return found


def _has_config(message: Unchecked) -> tuple[str, str] | None:
    """Look at a filter, a log or a transport socket: a name alone finds no extension."""
    if message.WhichOneof("config_type") is not None:
        return None
    return "typed_config", "is missing"


def _regex(message: Unchecked) -> tuple[str, str] | None:
    if compile_cost(message.regex) > MAX_OBJECT_COST:
        return "regex", f'"{message.regex[:80]}" is too large a regular expression for Envoy'
    try:
        re2.compile(message.regex, _quiet())
    except re2.error:
        return "regex", f'"{message.regex[:80]}" is not a regular expression of RE2'
    return None


def _server_tls(message: Unchecked) -> tuple[str, str] | None:
    context = message.common_tls_context
    if (
        context.tls_certificates
        or context.tls_certificate_sds_secret_configs
        or context.HasField("tls_certificate_provider_instance")
        or context.HasField("custom_tls_certificate_selector")
    ):
        return None
    return "common_tls_context", "has no certificates"


def _manager(message: Unchecked) -> tuple[str, str] | None:
    names = [each.upgrade_type.lower() for each in message.upgrade_configs]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        return "upgrade_configs", f'has "{twice}" twice'
    trusts = message.xff_num_trusted_hops or message.use_remote_address.value
    if message.original_ip_detection_extensions and trusts:
        excluded = "use_remote_address and xff_num_trusted_hops"
        return "original_ip_detection_extensions", f"exclude {excluded}"
    return None


def _cluster_filter(message: Unchecked) -> tuple[str, str] | None:
    if message.HasField("typed_config") or message.HasField("config_discovery"):
        return None
    return "typed_config", "is missing"


def _virtual_cluster(message: Unchecked) -> tuple[str, str] | None:
    return None if message.headers else ("headers", "is missing")


def _balancing(message: Unchecked) -> tuple[str, str] | None:
    return None if message.policies else ("policies", "is missing")


@functools.cache
def _quiet() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


_MANAGER = "envoy.extensions.filters.network.http_connection_manager"
_TLS = "envoy.extensions.transport_sockets.tls.v3"
_OF_TYPES: Mapping[str, tuple[TypeCheck, ...]] = {
    "envoy.config.route.v3.VirtualCluster": (_virtual_cluster,),
    "envoy.type.matcher.v3.RegexMatcher": (_regex,),
    "envoy.config.cluster.v3.Filter": (_cluster_filter,),
    "envoy.config.cluster.v3.LoadBalancingPolicy": (_balancing,),
    f"{_MANAGER}.v3.HttpConnectionManager": (_manager,),
    f"{_TLS}.DownstreamTlsContext": (_server_tls,),
}
