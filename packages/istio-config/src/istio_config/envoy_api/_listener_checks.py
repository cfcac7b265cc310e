"""Demands of Envoy on the parts of listeners, and on filters, that no constraint of its API states.

Seen with Envoy 1.36 and 1.40.
"""

from collections.abc import Mapping
from typing import Any as Unchecked

from istio_config.envoy_api._message_types import content_type, find_type
from istio_config.envoy_api._upstream_checks import duration_s, is_ip
from istio_config.envoy_api._value_checks import TypeCheck
from istio_config.type_urls import type_in

_LISTENER = "envoy.config.listener.v3"
_FILTERS = "envoy.extensions.filters"
_MANAGER = f"{_FILTERS}.network.http_connection_manager.v3.HttpConnectionManager"
_TCP = f"{_FILTERS}.network.tcp_proxy.v3.TcpProxy"
_LOGS = "envoy.extensions.access_loggers."
_TLS = "envoy.extensions.transport_sockets.tls.v3"
_LEAST_FILL_S = 0.05
_MOST_ALPN_BYTES = 255


def _chain_match(message: Unchecked) -> tuple[str, str] | None:
    for each in message.server_names:
        if "*" in each.removeprefix("*."):
            return "server_names", f'may begin with "*." and have no other *, found "{each}"'
    for field in ("address_suffix", "suffix_len"):
        if message.HasField(field) if field == "suffix_len" else message.address_suffix:
            return field, "is what Envoy does not implement"
    return None


def _range(message: Unchecked) -> tuple[str, str] | None:
    if is_ip(message.address_prefix):
        return None
    return "address_prefix", f'must be an IP address, found "{message.address_prefix}"'


def _access_log(message: Unchecked) -> tuple[str, str] | None:
    found = content_type(message.typed_config)
    if not found or found.startswith(_LOGS):
        return None
    return "typed_config", f"is a {found}, which is no access log"


def _manager(message: Unchecked) -> tuple[str, str] | None:
    names = [each.upgrade_type.lower() for each in message.upgrade_configs]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        return "upgrade_configs", f'has "{twice}" twice'
    trusts = message.xff_num_trusted_hops or message.use_remote_address.value
    if message.original_ip_detection_extensions and trusts:
        excluded = "use_remote_address and xff_num_trusted_hops"
        return "original_ip_detection_extensions", f"exclude {excluded}"
    if message.strip_matching_host_port and message.strip_any_host_port:
        return "strip_matching_host_port", "excludes strip_any_host_port"
    return None


def _logs_once(message: Unchecked) -> tuple[str, str] | None:
    old = ("access_log_flush_interval", "flush_access_log_on_new_request")
    given = [each for each in old if each in {field.name for field, _ in message.ListFields()}]
    if given and message.HasField("access_log_options"):
        return given[0], "excludes access_log_options"
    return None


def _rds(message: Unchecked) -> tuple[str, str] | None:
    if message.HasField("config_source") or message.route_config_name.startswith("xdstp:"):
        return None
    return "config_source", "is missing"


def _tunneling(message: Unchecked) -> tuple[str, str] | None:
    if message.post_path and not message.use_post:
        return "post_path", "needs use_post"
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


def _client_tls(message: Unchecked) -> tuple[str, str] | None:
    context = message.common_tls_context
    if len(context.tls_certificates) + len(context.tls_certificate_sds_secret_configs) > 1:
        return "common_tls_context", "has two certificates, and a client has one"
    kinds = context.WhichOneof("validation_context_type")
    if message.auto_sni_san_validation and kinds is None:
        return "auto_sni_san_validation", "needs a validation context"
    return None


def _alpn(message: Unchecked) -> tuple[str, str] | None:
    for each in message.common_tls_context.alpn_protocols:
        if len(each.encode()) > _MOST_ALPN_BYTES:
            return (
                "common_tls_context",
                f"has alpn_protocols, which may have {_MOST_ALPN_BYTES} bytes at most each",
            )
    return None


def _peer_names(message: Unchecked) -> tuple[str, str] | None:
    context = message.validation_context
    if message.WhichOneof("validation_context_type") != "validation_context":
        return None  # the roots come with the rest, over SDS
    known = context.HasField("trusted_ca") or context.HasField("ca_certificate_provider_instance")
    if known or context.HasField("custom_validator_config"):
        return None
    if context.match_typed_subject_alt_names or context.match_subject_alt_names:
        return "validation_context", "asks for names of the peer without roots (trusted_ca)"
    return None


def _lua(message: Unchecked) -> tuple[str, str] | None:
    if message.inline_code and message.HasField("default_source_code"):
        return "inline_code", "excludes default_source_code"
    return None


def _local_limit(message: Unchecked) -> tuple[str, str] | None:
    bucket = message.token_bucket
    if message.HasField("token_bucket") and duration_s(bucket.fill_interval) < _LEAST_FILL_S:
        return "token_bucket", "must have a fill_interval of 0.05s at least"
    return None


def _external_processor(message: Unchecked) -> tuple[str, str] | None:
    if message.HasField("grpc_service") == message.HasField("http_service"):
        return "grpc_service", "or http_service must be given, and not both"
    return None


def _tokens(message: Unchecked) -> tuple[str, str] | None:
    asked = (each.requires.provider_name for each in message.rules)
    unknown = next((each for each in asked if each and each not in message.providers), None)
    return None if unknown is None else ("rules", f'require "{unknown}", which is no provider')


def _discovered(message: Unchecked) -> tuple[str, str] | None:
    if not message.HasField("default_config"):
        if message.apply_default_config_without_warming:
            return "default_config", "is missing, and is to be applied without warming"
    elif content_type(message.default_config) not in map(type_in, _as_urls(message.type_urls)):
        return "default_config", "is of none of type_urls"
    unknown = next((each for each in _as_urls(message.type_urls) if not _is_type(each)), None)
    return None if unknown is None else ("type_urls", f'has "{unknown}", which is no type')


def _as_urls(names: Unchecked) -> list[str]:
    """Return type URLs; Envoy takes names of types without a prefix as well."""
    return [each if "/" in each else f"/{each}" for each in names]


def _is_type(url: str) -> bool:
    return find_type(type_in(url)) is not None


CHECKS: Mapping[str, tuple[TypeCheck, ...]] = {
    "envoy.config.accesslog.v3.AccessLog": (_access_log,),
    "envoy.config.core.v3.CidrRange": (_range,),
    "envoy.config.core.v3.ExtensionConfigSource": (_discovered,),
    f"{_LISTENER}.FilterChainMatch": (_chain_match,),
    f"{_FILTERS}.http.ext_proc.v3.ExternalProcessor": (_external_processor,),
    f"{_FILTERS}.http.jwt_authn.v3.JwtAuthentication": (_tokens,),
    f"{_FILTERS}.http.local_ratelimit.v3.LocalRateLimit": (_local_limit,),
    f"{_FILTERS}.http.lua.v3.Lua": (_lua,),
    f"{_FILTERS}.network.local_ratelimit.v3.LocalRateLimit": (_local_limit,),
    _MANAGER: (_manager, _logs_once),
    f"{_MANAGER.rpartition('.')[0]}.Rds": (_rds,),
    _TCP: (_logs_once,),
    f"{_TCP}.TunnelingConfig": (_tunneling,),
    f"{_TLS}.CommonTlsContext": (_peer_names,),
    f"{_TLS}.DownstreamTlsContext": (_server_tls,),
    f"{_TLS}.UpstreamTlsContext": (_client_tls, _alpn),
}
"""By the names of types."""
