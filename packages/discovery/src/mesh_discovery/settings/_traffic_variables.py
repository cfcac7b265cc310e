"""The variables of Istio's control plane that change what proxies are given; how each counts."""

from istio_settings import HONOURED, NO_EFFECT, Setting

_DEFAULT = "proxies get what Istio's default makes of it, {}"


def _as_by_default(name: str, default: str) -> Setting:
    return Setting(name, NO_EFFECT, _DEFAULT.format(default or "nothing"), silent=(default,))


TRAFFIC = (
    Setting(
        "PILOT_SCOPE_GATEWAY_TO_NAMESPACE", HONOURED, "a Gateway is for its namespace's routers"
    ),
    Setting("BLOCKED_CIDRS_IN_JWKS_URIS", HONOURED, "where no key sets are fetched from"),
    Setting(
        "PILOT_WORKLOAD_ENTRY_GRACE_PERIOD",
        HONOURED,
        "how long a registered workload stays without a stream",
    ),
    Setting(
        "PILOT_HTTP10",
        NO_EFFECT,
        "set ISTIO_META_HTTP10=1 at the proxies that are to accept HTTP/1.0",
        silent=("false", "0"),
    ),
    Setting(
        "PILOT_TRACE_SAMPLING",
        NO_EFFECT,
        "set defaultConfig.tracing.sampling in mesh config, or randomSamplingPercentage in a "
        "Telemetry",
        silent=("1", "1.0"),
    ),
    Setting(
        "PILOT_JWT_ENABLE_REMOTE_JWKS",
        NO_EFFECT,
        "key sets are fetched here, and proxies are sent the keys",
        silent=("false", "istiod"),
    ),
    Setting(
        "PILOT_JWT_PUB_KEY_REFRESH_INTERVAL",
        NO_EFFECT,
        "key sets are fetched again every 20 minutes",
        silent=("20m", "20m0s"),
    ),
    Setting(
        "PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION",
        NO_EFFECT,
        "workloads register where a WorkloadGroup lets them",
        silent=("true",),
    ),
    Setting(
        "PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS",
        NO_EFFECT,
        "what agents report of health counts",
        silent=("true",),
    ),
    Setting(
        "PILOT_ENABLE_PERSISTENT_SESSION_FILTER",
        NO_EFFECT,
        "services with the label istio.io/persistent-session have sessions",
        silent=("true", "false"),
    ),
    Setting(
        "PILOT_FILTER_GATEWAY_CLUSTER_CONFIG",
        NO_EFFECT,
        "routers get the clusters of the services that they see",
        silent=("false",),
    ),
    Setting(
        "PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES",
        NO_EFFECT,
        "a Sidecar, or interception mode NONE, has a proxy balance headless services",
        silent=("false",),
    ),
    Setting(
        "PILOT_ENABLE_IP_AUTOALLOCATE",
        NO_EFFECT,
        "the label networking.istio.io/enable-autoallocate-ip says it for a ServiceEntry",
        silent=("true",),
    ),
    Setting(
        "ENABLE_TLS_ON_SIDECAR_INGRESS",
        NO_EFFECT,
        "tls of a Sidecar's ingress has no effect",
        silent=("false",),
    ),
    *(
        Setting(name, NO_EFFECT, "no extension of Istio's own Envoy is sent", silent=(default,))
        for name, default in (
            ("PILOT_ENABLE_METADATA_EXCHANGE", "true"),
            ("PILOT_ENABLE_TELEMETRY_LABEL", "true"),
            ("PILOT_ENDPOINT_TELEMETRY_LABEL", "true"),
            ("PILOT_MX_ADDITIONAL_LABELS", ""),
            ("PILOT_DISABLE_MX_ALPN", "false"),
            ("PILOT_ENABLE_ALPN_FILTER", "true"),
            ("LABEL_CANONICAL_SERVICES_FOR_MESH_EXTERNAL_SERVICE_ENTRIES", "false"),
        )
    ),
    *(
        Setting(
            name, NO_EFFECT, "it is the agent's: set it where the agent runs", silent=(default,)
        )
        for name, default in (
            ("ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION", "true"),
            ("ISTIO_WASM_MAX_BINARY_SIZE_BYTES", "268435456"),
            ("PILOT_AGENT_MERGE_ENVOY_STATS", "true"),
            ("ENVOY_STATUS_PORT_ENABLE_PROXY_PROTOCOL", "false"),
            ("METRICS_LOCALHOST_ACCESS_ONLY", "false"),
        )
    ),
    *(
        _as_by_default(name, default)
        for name, default in (
            ("DISABLE_SHADOW_HOST_SUFFIX", "true"),
            ("DISABLE_TRACK_REMAINING_CB_METRICS", "true"),
            ("ENABLE_100_CONTINUE_HEADERS", "true"),
            ("ENABLE_ENHANCED_DESTINATIONRULE_MERGE", "true"),
            ("ENABLE_EXTERNAL_NAME_ALIAS", "true"),
            ("ENABLE_GATEWAY_API_INFERENCE_EXTENSION", "false"),
            ("ENABLE_HCM_INTERNAL_NETWORKS", "false"),
            ("ENABLE_LOCALITY_WEIGHTED_LB_CONFIG", "false"),
            ("ENABLE_SELECTOR_BASED_K8S_GATEWAY_POLICY", "true"),
            ("ENABLE_WILDCARD_HOST_SERVICE_ENTRIES_FOR_TLS", "false"),
            ("ISTIO_DUAL_STACK", "false"),
            ("ISTIO_ENABLE_IPV4_OUTBOUND_LISTENER_FOR_IPV6_CLUSTERS", "false"),
            ("MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP", "1"),
            ("PILOT_ALLOW_ANY_DYNAMIC_DNS_MAX_HOSTS", "1024"),
            ("PILOT_ALLOW_SIDECAR_SERVICE_INBOUND_LISTENER_MERGE", "false"),
            ("PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS", "true"),
            ("PILOT_DNS_CARES_UDP_MAX_QUERIES", "100"),
            ("PILOT_DNS_JITTER_DURATION", "100ms"),
            ("PILOT_DRAINING_LABEL", "istio.io/draining"),
            ("PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN", "true"),
            ("PILOT_ENABLE_GATEWAY_API", "true"),
            ("PILOT_ENABLE_HEADLESS_SERVICE_POD_LISTENERS", "true"),
            ("PILOT_ENABLE_INBOUND_PASSTHROUGH", "true"),
            ("PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES", "true"),
            ("PILOT_ENABLE_MONGO_FILTER", "true"),
            ("PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS", "false"),
            ("PILOT_ENABLE_MYSQL_FILTER", "false"),
            ("PILOT_ENABLE_PROTOCOL_SNIFFING_FOR_INBOUND", "true"),
            ("PILOT_ENABLE_PROTOCOL_SNIFFING_FOR_OUTBOUND", "true"),
            ("PILOT_ENABLE_QUIC_LISTENERS", "false"),
            ("PILOT_ENABLE_REDIS_FILTER", "false"),
            ("PILOT_ENABLE_ROUTE_COLLAPSE_OPTIMIZATION", "true"),
            ("PILOT_ENABLE_SERVICEENTRY_SELECT_PODS", "true"),
            ("PILOT_ENABLE_STRICT_GATEWAY_MERGING", "true"),
            ("PILOT_ENVOY_FILTER_STATS", "false"),
            ("PILOT_GATEWAY_API_CONTROLLER_NAME", "istio.io/gateway-controller"),
            ("PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT", "15s"),
            ("PILOT_IP_AUTOALLOCATE_IPV4_PREFIX", "240.240.0.0/16"),
            ("PILOT_IP_AUTOALLOCATE_IPV6_PREFIX", "2001:2::/48"),
            ("PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API", "true"),
            ("PILOT_PERSISTENT_SESSION_HEADER_LABEL", "istio.io/persistent-session-header"),
            ("PILOT_PERSISTENT_SESSION_LABEL", "istio.io/persistent-session"),
            ("PILOT_SEND_UNHEALTHY_ENDPOINTS", "false"),
            ("PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE", "true"),
            ("PILOT_SIDECAR_USE_REMOTE_ADDRESS", "false"),
            ("PILOT_UNIFIED_SIDECAR_SCOPE", "true"),
            ("PREFER_DESTINATIONRULE_TLS_FOR_EXTERNAL_SERVICES", "true"),
            ("RESOLVE_HOSTNAME_GATEWAYS", "true"),
        )
    ),
)
