"""The settings of the mesh and of a proxy that HTTP connection managers have.

Which headers proxies set by themselves, how paths are normalized, and how long and how much clients
may ask. Gateways of the profile EDGE have bounds where nothing is set.
"""

from dataclasses import dataclass
from enum import Enum, auto

import msgspec

from envoy_config.generate._extensions import http_extensions, network_extensions
from envoy_config.generate._header_case import preserved_case
from envoy_config.generate._messages import (
    duration,
    http_connection_manager_pb2,
    listener_components_pb2,
    protocol_pb2,
    wrappers_pb2,
)
from envoy_config.generate.policies._filters import NO_POLICY_FILTERS, PolicyFilters
from envoy_config.plan._proxy_settings import ProxySettings
from envoy_config.plan.redirected._chain_kinds import PLAIN_HTTP
from istio_config.kinds.mesh_config import (
    ClientCertDetails,
    ConnectionProfile,
    ConnectionSettings,
    EscapedSlashesAction,
    MeshConfigSpec,
    ProxyHeaders,
    UnderscoresAction,
)
from mesh_configfile import Duration

HttpFilter = http_connection_manager_pb2.HttpFilter
_Manager = http_connection_manager_pb2.HttpConnectionManager
_KIB = 1024
_EDGE = ConnectionSettings(
    http_idle_timeout=Duration(3600),
    http_stream_idle_timeout=Duration(300),
    http_request_timeout=Duration(300),
    http_request_headers_timeout=Duration(60),
    http_max_concurrent_streams=100,
    http2_initial_stream_window_size=64 * _KIB,
    http2_initial_connection_window_size=1024 * _KIB,
    http_headers_with_underscores_action=UnderscoresAction.REJECT_REQUEST,
    http_merge_slashes=True,
    http_path_with_escaped_slashes_action=EscapedSlashesAction.UNESCAPE_AND_REDIRECT,
    listener_per_connection_buffer_limit_bytes=32 * _KIB,
)
NO_CONNECTION_SETTINGS = ConnectionSettings()


class Side(Enum):
    """The side of a proxy on which requests come in."""

    INBOUND = auto()
    OUTBOUND = auto()
    GATEWAY = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """All settings that are not of one port or one route.

    policies: the filters of what comes in, at sidecars and at gateways.
    """

    mesh: MeshConfigSpec
    proxy: ProxySettings
    policies: PolicyFilters = NO_POLICY_FILTERS

    def http_filters(self, port: int, side: "Side") -> list[HttpFilter]:
        """Return the filters of policies and extensions for requests to a port.

        0: one that is none of a service's.
        """
        inbound = side is Side.INBOUND
        extensions = http_extensions(self.proxy.extensions, port, inbound=inbound)
        return self.policies.of_requests(extensions)

    def network_filters(
        self, port: int, side: "Side", *, of_requests: bool = False
    ) -> list[listener_components_pb2.Filter]:
        """Return the filters of policies and extensions for connections to a port.

        of_requests: those of connections that are looked into, where policies see the requests.
        """
        inbound = side is Side.INBOUND
        extensions = network_extensions(self.proxy.extensions, port, inbound=inbound)
        if of_requests:
            return list(extensions.all)
        return self.policies.of_connections(extensions)

    @property
    def headers(self) -> ProxyHeaders:
        """The headers that the proxy sets by itself."""
        return self.proxy.config.proxy_headers or _NO_HEADERS

    def connections(self, side: Side) -> ConnectionSettings:
        """Return the bounds of clients' connections."""
        own = self.proxy.config.connection_settings or NO_CONNECTION_SETTINGS
        if own.http_idle_timeout is None and self.proxy.idle_timeout is not None:
            own = msgspec.structs.replace(own, http_idle_timeout=self.proxy.idle_timeout)
        if side is not Side.GATEWAY or own.profile is not ConnectionProfile.EDGE:
            return own
        given = {
            name: value
            for name in ConnectionSettings.__struct_fields__
            if (value := getattr(own, name)) is not None
        }
        return msgspec.structs.replace(_EDGE, **given)


_NO_HEADERS = ProxyHeaders()


def apply_settings(manager: _Manager, settings: ManagerSettings, side: Side) -> None:
    """Set what the mesh and the proxy say of a connection manager."""
    _normalize_paths(manager, settings)
    _set_headers(manager, settings.headers, side)
    _bound(manager, settings.connections(side))
    if settings.proxy.accepts_http10:
        manager.http_protocol_options.accept_http_10 = True


def suppresses_debug_headers(settings: ManagerSettings) -> bool:
    """Return whether the router filter leaves out Envoy's x-envoy-... headers."""
    switch = settings.headers.envoy_debug_headers
    return switch is not None and bool(switch.disabled)


def _normalize_paths(manager: _Manager, settings: ManagerSettings) -> None:
    how = settings.mesh.path_normalization.normalization
    manager.normalize_path.CopyFrom(wrappers_pb2.BoolValue(value=how.normalizes))
    manager.merge_slashes = how.merges_slashes
    if how.decodes_slashes:
        manager.path_with_escaped_slashes_action = (
            _Manager.PathWithEscapedSlashesAction.UNESCAPE_AND_FORWARD
        )


def _set_headers(manager: _Manager, headers: ProxyHeaders, side: Side) -> None:
    if headers.request_id is not None and headers.request_id.disabled:
        manager.generate_request_id.CopyFrom(wrappers_pb2.BoolValue(value=False))
    if (server := headers.server) is not None:
        if server.disabled:
            manager.server_name = ""
            manager.server_header_transformation = _Manager.ServerHeaderTransformation.PASS_THROUGH
        elif server.value:
            manager.server_name = server.value
            manager.server_header_transformation = _Manager.ServerHeaderTransformation.OVERWRITE
    if headers.preserve_http1_header_case:
        manager.http_protocol_options.header_key_format.CopyFrom(preserved_case())
    port = headers.x_forwarded_port
    manager.append_x_forwarded_port = port is not None and bool(port.enabled)
    if side is Side.INBOUND:
        _forward_client_cert(manager, headers)


def _forward_client_cert(manager: _Manager, headers: ProxyHeaders) -> None:
    details = headers.forwarded_client_cert
    if details is not ClientCertDetails.UNDEFINED:
        manager.forward_client_cert_details = _Manager.ForwardClientCertDetails.Value(details)
        if details not in (ClientCertDetails.SANITIZE_SET, ClientCertDetails.APPEND_FORWARD):
            manager.ClearField("set_current_client_cert_details")
            return
    fields = headers.set_current_client_cert_details
    if fields is None:
        manager.set_current_client_cert_details.CopyFrom(
            _Manager.SetCurrentClientCertDetails(
                subject=wrappers_pb2.BoolValue(value=True), dns=True, uri=True
            )
        )
        return
    manager.set_current_client_cert_details.CopyFrom(
        _Manager.SetCurrentClientCertDetails(
            subject=wrappers_pb2.BoolValue(value=fields.subject is not False),
            cert=bool(fields.cert),
            chain=bool(fields.chain),
            dns=fields.dns is not False,
            uri=fields.uri is not False,
        )
    )


def _bound(manager: _Manager, settings: ConnectionSettings) -> None:
    common, manager_fields = manager.common_http_protocol_options, manager
    for target, name, value in (
        (common, "idle_timeout", settings.http_idle_timeout),
        (common, "max_connection_duration", settings.http_max_connection_duration),
        (common, "max_stream_duration", settings.http_max_stream_duration),
        (manager_fields, "stream_idle_timeout", settings.http_stream_idle_timeout),
        (manager_fields, "request_timeout", settings.http_request_timeout),
        (manager_fields, "request_headers_timeout", settings.http_request_headers_timeout),
        (manager_fields, "drain_timeout", settings.http_drain_timeout),
    ):
        if value is not None:
            getattr(target, name).CopyFrom(duration(value))
    for name, number in (
        ("max_concurrent_streams", settings.http_max_concurrent_streams),
        ("initial_stream_window_size", settings.http2_initial_stream_window_size),
        ("initial_connection_window_size", settings.http2_initial_connection_window_size),
    ):
        if number is not None:
            wanted = wrappers_pb2.UInt32Value(value=number)
            getattr(manager.http2_protocol_options, name).CopyFrom(wanted)
    if (underscores := settings.http_headers_with_underscores_action) is not None:
        action = protocol_pb2.HttpProtocolOptions.HeadersWithUnderscoresAction
        common.headers_with_underscores_action = action.Value(underscores)
    if settings.http_merge_slashes is not None:
        manager.merge_slashes = settings.http_merge_slashes
    if (slashes := settings.http_path_with_escaped_slashes_action) is not None:
        manager.path_with_escaped_slashes_action = _Manager.PathWithEscapedSlashesAction.Value(
            slashes
        )


def plain_http(proxy: ProxySettings) -> tuple[str, ...]:
    """Return the protocols that plaintext is found to be by its first bytes which are requests."""
    return ("http/1.0", *PLAIN_HTTP) if proxy.accepts_http10 else PLAIN_HTTP
