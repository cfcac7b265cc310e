"""What istiod sends to sidecars, in the forms of 1.11 and of today: a server's and a client's.

Resources are dictionaries in protobuf's JSON form. Ports and addresses are those of a test: without
iptables, the inbound listener stands where clients connect, and the outbound one is bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from envoy.config.accesslog.v3 import accesslog_pb2  # noqa: F401 - messages that are packed below
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.access_loggers.file.v3 import file_pb2  # noqa: F401
from envoy.extensions.filters.common.fault.v3 import fault_pb2 as _fault  # noqa: F401
from envoy.extensions.filters.http.cors.v3 import cors_pb2  # noqa: F401
from envoy.extensions.filters.http.fault.v3 import fault_pb2  # noqa: F401
from envoy.extensions.filters.http.grpc_stats.v3 import config_pb2  # noqa: F401
from envoy.extensions.filters.http.jwt_authn.v3 import config_pb2 as _jwt  # noqa: F401
from envoy.extensions.filters.http.rbac.v3 import rbac_pb2  # noqa: F401
from envoy.extensions.filters.http.router.v3 import router_pb2  # noqa: F401
from envoy.extensions.filters.http.wasm.v3 import wasm_pb2  # noqa: F401
from envoy.extensions.filters.listener.http_inspector.v3 import http_inspector_pb2  # noqa: F401
from envoy.extensions.filters.listener.original_dst.v3 import original_dst_pb2  # noqa: F401
from envoy.extensions.filters.listener.tls_inspector.v3 import tls_inspector_pb2  # noqa: F401
from envoy.extensions.filters.network.http_connection_manager.v3 import (  # noqa: F401
    http_connection_manager_pb2,
)
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2  # noqa: F401
from envoy.extensions.filters.network.wasm.v3 import wasm_pb2 as _network_wasm  # noqa: F401
from envoy.extensions.retry.host.previous_hosts.v3 import previous_hosts_pb2  # noqa: F401
from envoy.extensions.transport_sockets.raw_buffer.v3 import raw_buffer_pb2  # noqa: F401
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2  # noqa: F401
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2  # noqa: F401
from google.protobuf import json_format, message
from udpa.type.v1 import typed_struct_pb2  # noqa: F401
from xds.type.v3 import typed_struct_pb2 as _xds_typed_struct  # noqa: F401

import istio_types  # noqa: F401 - Istio's own messages are then known to protobuf

Release: TypeAlias = Literal["1.11", "today"]
Dictionary: TypeAlias = dict[str, object]

TYPES = "type.googleapis.com/"
LISTENER = TYPES + "envoy.config.listener.v3.Listener"
CLUSTER = TYPES + "envoy.config.cluster.v3.Cluster"
ENDPOINTS = TYPES + "envoy.config.endpoint.v3.ClusterLoadAssignment"
ROUTES = TYPES + "envoy.config.route.v3.RouteConfiguration"

_CLASSES: dict[str, type[message.Message]] = {
    LISTENER: listener_pb2.Listener,
    CLUSTER: cluster_pb2.Cluster,
    ENDPOINTS: endpoint_pb2.ClusterLoadAssignment,
    ROUTES: route_pb2.RouteConfiguration,
}

HM = ["istio-http/1.0", "istio-http/1.1", "istio-h2"]
TM = ["istio-peer-exchange", "istio"]
SERVER_ID = "spiffe://cluster.local/ns/default/sa/server"
CLIENT_ID = "spiffe://cluster.local/ns/default/sa/client"


def serialised(type_url: str, resource: Dictionary) -> bytes:
    """A resource's message."""
    found = json_format.ParseDict(resource, _CLASSES[type_url]())
    return found.SerializeToString(deterministic=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """One release's resources. certificates: a directory of files in the place of the SDS."""

    release: Release
    certificates: Path
    rules: list[Dictionary] = field(default_factory=list)
    """Further HTTP filters of the inbound chains, behind `istio_authn`."""

    @property
    def is_old(self) -> bool:
        return self.release == "1.11"

    # -- filters

    def named(self, name: str, type_name: str, **config: object) -> Dictionary:
        """An extension that 1.11 names without a type."""
        return {"name": name} if self.is_old else _typed(name, type_name, **config)

    def typed_struct(self, type_name: str, value: Dictionary) -> Dictionary:
        package = "udpa.type.v1" if self.is_old else "xds.type.v3"
        kind = f"{TYPES}{package}.TypedStruct"
        return {"@type": kind, "type_url": TYPES + type_name, "value": value}

    def tcp_exchange(self) -> Dictionary:
        config = {"protocol": "istio-peer-exchange"}
        if not self.is_old:
            config["enable_discovery"] = "true"
        return {
            "name": "istio.metadata_exchange",
            "typed_config": self.typed_struct(
                "envoy.tcp.metadataexchange.config.MetadataExchange", dict(config)
            ),
        }

    def http_exchange(self, way: str) -> Dictionary:
        if self.is_old:
            return {
                "name": "istio.metadata_exchange",
                "typed_config": {
                    "@type": f"{TYPES}envoy.extensions.filters.http.wasm.v3.Wasm",
                    "config": {
                        "vm_config": _null_vm("envoy.wasm.metadata_exchange"),
                        "configuration": {"@type": f"{TYPES}google.protobuf.Struct", "value": {}},
                    },
                },
            }
        headers: list[Dictionary] = [{"istio_headers": {}}]
        return {
            "name": "istio.metadata_exchange",
            "typed_config": self.typed_struct(
                "io.istio.http.peer_metadata.Config",
                {
                    f"{way}_discovery": [*headers, {"workload_discovery": {}}],
                    f"{way}_propagation": headers,
                },
            ),
        }

    def stats(self, *, tcp: bool = False) -> Dictionary:
        if not self.is_old:
            value: Dictionary = {"disable_host_header_fallback": True}
            if tcp:
                value = {"tcp_reporting_duration": "5s"}
            return {
                "name": "istio.stats",
                "typed_config": self.typed_struct("stats.PluginConfig", value),
            }
        kind = "network" if tcp else "http"
        return {
            "name": "istio.stats",
            "typed_config": self.typed_struct(
                f"envoy.extensions.filters.{kind}.wasm.v3.Wasm",
                {
                    "config": {
                        "root_id": "stats_inbound",
                        "vm_config": {**_null_vm("envoy.wasm.stats"), "vm_id": "stats_inbound"},
                        "configuration": {
                            "@type": f"{TYPES}google.protobuf.StringValue",
                            "value": '{"debug": "false", "stat_prefix": "istio"}\n',
                        },
                    }
                },
            ),
        }

    @staticmethod
    def alpn() -> Dictionary:
        return _typed(
            "istio.alpn",
            "istio.envoy.config.filter.http.alpn.v2alpha1.FilterConfig",
            alpn_override=[
                {
                    "upstream_protocol": protocol,
                    "alpn_override": [f"istio-{name}", "istio", name],
                }
                for protocol, name in (
                    ("HTTP10", "http/1.0"),
                    ("HTTP11", "http/1.1"),
                    ("HTTP2", "h2"),
                )
            ],
        )

    def authn(self) -> list[Dictionary]:
        if not self.is_old:
            return []
        return [
            _typed(
                "istio_authn",
                "istio.envoy.config.filter.http.authn.v2alpha1.FilterConfig",
                policy={"peers": [{"mtls": {"mode": "PERMISSIVE"}}]},
                skip_validate_trust_domain=True,
            )
        ]

    def _common_http(self) -> list[Dictionary]:
        cors = self.named("envoy.filters.http.cors", "envoy.extensions.filters.http.cors.v3.Cors")
        fault = self.named(
            "envoy.filters.http.fault", "envoy.extensions.filters.http.fault.v3.HTTPFault"
        )
        return [cors, fault]

    def _manager(self, *, outbound: bool, name: str, routes: Dictionary) -> Dictionary:
        before: list[Dictionary] = [self.http_exchange("upstream" if outbound else "downstream")]
        before += [] if outbound else [*self.authn(), *self.rules]
        grpc_stats = _typed(
            "envoy.filters.http.grpc_stats",
            "envoy.extensions.filters.http.grpc_stats.v3.FilterConfig",
            emit_filter_state=True,
            stats_for_all_methods=False,
        )
        router = _typed(
            "envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router"
        )
        filters = [
            *before,
            grpc_stats,
            *([self.alpn()] if outbound else []),
            *self._common_http(),
            self.stats(),
            router,
        ]
        certificates: Dictionary = (
            {}
            if outbound
            else {
                "forward_client_cert_details": "APPEND_FORWARD",
                "set_current_client_cert_details": {"subject": True, "dns": True, "uri": True},
            }
        )
        return _typed(
            "envoy.filters.network.http_connection_manager",
            "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            stat_prefix=name,
            http_filters=filters,
            access_log=[self._log()],
            use_remote_address=outbound,
            generate_request_id=True,
            server_name="istio-envoy",
            normalize_path=True,
            stream_idle_timeout="0s",
            upgrade_configs=[{"upgrade_type": "websocket"}],
            tracing={
                "client_sampling": {"value": 100},
                "random_sampling": {"value": 1},
                "overall_sampling": {"value": 100},
            },
            **certificates,
            **routes,
        )

    def _log(self) -> Dictionary:
        return _typed(
            "envoy.access_loggers.file",
            "envoy.extensions.access_loggers.file.v3.FileAccessLog",
            path="/dev/null",
            log_format={
                "text_format_source": {"inline_string": "%REQ(:METHOD)% %RESPONSE_CODE%\n"}
            },
        )

    def _tcp_proxy(self, cluster: str) -> Dictionary:
        return _typed(
            "envoy.filters.network.tcp_proxy",
            "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
            stat_prefix=cluster,
            cluster=cluster,
            access_log=[self._log()],
        )

    def _sds(self, name: str) -> Dictionary:
        path = {"path": str(self.certificates / f"{name}.yaml")}
        return {
            "name": name,
            "sds_config": {"path_config_source": path, "resource_api_version": "V3"},
        }

    def _tls(self, kind: str, *, alpn: list[str], names: Dictionary, **more: object) -> Dictionary:
        return _typed(
            "envoy.transport_sockets.tls",
            f"envoy.extensions.transport_sockets.tls.v3.{kind}TlsContext",
            common_tls_context={
                "alpn_protocols": alpn,
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
                "tls_certificate_sds_secret_configs": [self._sds("default")],
                "combined_validation_context": {
                    "default_validation_context": {
                        # The field of 1.11, which Envoy still takes, or that of today.
                        **(
                            {"match_subject_alt_names": [names]}
                            if self.is_old
                            else {
                                "match_typed_subject_alt_names": [
                                    {"san_type": "URI", "matcher": names}
                                ]
                            }
                        )
                    },
                    "validation_context_sds_secret_config": self._sds("ROOTCA"),
                },
            },
            **more,
        )

    # -- the server's side

    def inbound_listener(self, *, port: int) -> Dictionary:
        """`virtualInbound` with the chains of an undeclared (Auto) port in mode PERMISSIVE."""
        cluster = "inbound|8080||"
        routes: Dictionary = {
            "route_config": {
                "name": cluster,
                "validate_clusters": False,
                "virtual_hosts": [
                    {
                        "name": "inbound|http|8080",
                        "domains": ["*"],
                        "routes": [
                            {
                                "name": "default",
                                "match": {"prefix": "/"},
                                "decorator": {"operation": "server.default.svc:8080/*"},
                                "route": {
                                    "cluster": cluster,
                                    "timeout": "0s",
                                    "max_stream_duration": {
                                        "max_stream_duration": "0s",
                                        "grpc_timeout_header_max": "0s",
                                    },
                                },
                                "response_headers_to_add": [
                                    {"header": {"key": "x-chain", "value": "http"}}
                                ],
                            }
                        ],
                    }
                ],
            }
        }
        manager = self._manager(outbound=False, name="inbound_0.0.0.0_8080", routes=routes)

        def tls(alpn: list[str]) -> Dictionary:
            prefix: Dictionary = {"prefix": "spiffe://cluster.local/"}
            return self._tls("Downstream", alpn=alpn, names=prefix, require_client_certificate=True)

        def chain(match: Dictionary, *filters: Dictionary, **more: object) -> Dictionary:
            return {
                "name": "0.0.0.0_8080",
                "filter_chain_match": {"destination_port": port, **match},
                "filters": list(filters),
                **more,
            }

        exchange, stats = self.tcp_exchange(), self.stats(tcp=True)
        http_tls, tcp_tls = tls(["h2", "http/1.1"]), tls(["istio-peer-exchange", "h2", "http/1.1"])
        tcp = self._tcp_proxy(cluster)
        of_tls: Dictionary = {"transport_protocol": "tls"}
        plain: Dictionary = {"transport_protocol": "raw_buffer"}
        hp = ["http/1.1", "h2c"]
        return {
            "name": "virtualInbound",
            "address": _address(port),
            "traffic_direction": "INBOUND",
            "continue_on_listener_filters_timeout": True,
            "listener_filters_timeout": "0s",
            "access_log": [{**self._log(), "filter": {"response_flag_filter": {"flags": ["NR"]}}}],
            "listener_filters": [
                self.named(
                    "envoy.filters.listener.original_dst",
                    "envoy.extensions.filters.listener.original_dst.v3.OriginalDst",
                ),
                self.named(
                    "envoy.filters.listener.tls_inspector",
                    "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector",
                ),
                self.named(
                    "envoy.filters.listener.http_inspector",
                    "envoy.extensions.filters.listener.http_inspector.v3.HttpInspector",
                ),
            ],
            "filter_chains": [
                {
                    "name": "virtualInbound-blackhole",
                    "filter_chain_match": {"destination_port": 15006},
                    "filters": [exchange, stats, self._tcp_proxy("BlackHoleCluster")],
                },
                chain(
                    {**of_tls, "application_protocols": HM},
                    exchange,
                    manager,
                    transport_socket=http_tls,
                ),
                chain({**plain, "application_protocols": hp}, exchange, manager),
                chain(
                    {**of_tls, "application_protocols": TM},
                    exchange,
                    stats,
                    tcp,
                    transport_socket=tcp_tls,
                ),
                chain(plain, exchange, stats, tcp),
                chain(of_tls, exchange, stats, tcp),
            ],
        }

    def inbound_clusters(self, *, application_port: int) -> list[Dictionary]:
        name = "inbound|8080||"
        return [
            {
                "name": name,
                "type": "STATIC",
                "connect_timeout": "10s",
                "load_assignment": _endpoints(name, application_port),
                **self._protocol(),
                "metadata": _istio_metadata("server"),
            },
            {"name": "BlackHoleCluster", "type": "STATIC", "connect_timeout": "10s"},
        ]

    # -- the client's side

    def outbound_listeners(self, *, http_port: int, tcp_port: int) -> list[Dictionary]:
        routes: Dictionary = {
            "rds": {
                "route_config_name": "8080",
                "config_source": {
                    "ads": {},
                    "initial_fetch_timeout": "0s",
                    "resource_api_version": "V3",
                },
            }
        }
        manager = self._manager(outbound=True, name="outbound_0.0.0.0_8080", routes=routes)
        # In 1.11 the field has another name. Not bound, as for every service's address.
        unbound: Dictionary = (
            {"deprecated_v1": {"bind_to_port": False}} if self.is_old else {"bind_to_port": False}
        )
        return [
            {
                "name": f"0.0.0.0_{http_port}",
                "address": _address(http_port),
                "traffic_direction": "OUTBOUND",
                "filter_chains": [{"filters": [manager]}],
            },
            {
                "name": f"0.0.0.0_{tcp_port}",
                "address": _address(tcp_port),
                "traffic_direction": "OUTBOUND",
                "filter_chains": [
                    {"filters": [self.stats(tcp=True), self._tcp_proxy(_outbound(9000))]}
                ],
            },
            {
                "name": "10.96.0.10_443",
                "address": {"socket_address": {"address": "10.96.0.10", "port_value": 443}},
                "traffic_direction": "OUTBOUND",
                "filter_chains": [
                    {"filters": [self.stats(tcp=True), self._tcp_proxy(_outbound(9000))]}
                ],
                **unbound,
            },
        ]

    def routes(self) -> Dictionary:
        return {
            "name": "8080",
            "validate_clusters": False,
            "virtual_hosts": [
                {
                    "name": "server.default.svc.cluster.local:8080",
                    "domains": ["*"],
                    "include_request_attempt_count": True,
                    "routes": [
                        {
                            "name": "default",
                            "match": {"prefix": "/"},
                            "decorator": {"operation": "server.default.svc.cluster.local:8080/*"},
                            "route": {
                                "cluster": _outbound(8080),
                                "timeout": "0s",
                                "retry_policy": {
                                    "retry_on": "connect-failure,refused-stream,unavailable",
                                    "num_retries": 2,
                                    "retry_host_predicate": [
                                        self.named(
                                            "envoy.retry_host_predicates.previous_hosts",
                                            "envoy.extensions.retry.host.previous_hosts.v3"
                                            ".PreviousHostsPredicate",
                                        )
                                    ],
                                    "host_selection_retry_max_attempts": "5",
                                    "retriable_status_codes": [503],
                                },
                                "max_grpc_timeout": "0s",
                            },
                        }
                    ],
                }
            ],
        }

    def outbound_clusters(self) -> list[Dictionary]:
        return [self._outbound_cluster(8080), self._outbound_cluster(9000)]

    def _outbound_cluster(self, port: int) -> Dictionary:
        tls = self._tls(
            "Upstream",
            alpn=list(TM),
            names={"exact": SERVER_ID},
            sni=f"outbound_.{port}_._.server.default.svc.cluster.local",
        )
        return {
            "name": _outbound(port),
            "type": "EDS",
            "connect_timeout": "10s",
            "eds_cluster_config": {
                "service_name": _outbound(port),
                "eds_config": {
                    "ads": {},
                    "initial_fetch_timeout": "0s",
                    "resource_api_version": "V3",
                },
            },
            **(self._protocol() if port == 8080 else {}),
            "filters": [self.tcp_exchange()],
            "metadata": _istio_metadata("server"),
            "transport_socket_matches": [
                {
                    "name": "tlsMode-istio",
                    "match": {"tlsMode": "istio"},
                    "transport_socket": tls,
                },
                {
                    "name": "tlsMode-disabled",
                    "match": {},
                    "transport_socket": self.named(
                        "envoy.transport_sockets.raw_buffer",
                        "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
                    ),
                },
            ],
        }

    @staticmethod
    def endpoints(*, server_port: int) -> list[Dictionary]:
        found = []
        for port in (8080, 9000):
            assignment = _endpoints(_outbound(port), server_port)
            assignment["endpoints"][0]["lb_endpoints"][0]["metadata"] = {  # type: ignore[index]
                "filter_metadata": {
                    "envoy.transport_socket_match": {"tlsMode": "istio"},
                    "istio": {"workload": "server;default;server;v1;Kubernetes"},
                }
            }
            found.append(assignment)
        return found

    @staticmethod
    def _protocol() -> Dictionary:
        kind = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
        return {
            "typed_extension_protocol_options": {
                kind: {
                    "@type": TYPES + kind,
                    "use_downstream_protocol_config": {
                        "http_protocol_options": {},
                        "http2_protocol_options": {"max_concurrent_streams": 1073741824},
                    },
                }
            }
        }


def _outbound(port: int) -> str:
    return f"outbound|{port}||server.default.svc.cluster.local"


def _typed(name: str, type_name: str, **config: object) -> Dictionary:
    return {"name": name, "typed_config": {"@type": TYPES + type_name, **config}}


def _null_vm(plugin: str) -> Dictionary:
    return {
        "runtime": "envoy.wasm.runtime.null",
        "code": {"local": {"inline_string": plugin}},
    }


def _address(port: int) -> Dictionary:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _endpoints(cluster: str, port: int) -> Dictionary:
    return {
        "cluster_name": cluster,
        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(port)}}]}],
    }


def _istio_metadata(name: str) -> Dictionary:
    service = {"host": f"{name}.default.svc.cluster.local", "name": name, "namespace": "default"}
    return {"filter_metadata": {"istio": {"services": [service]}}}
