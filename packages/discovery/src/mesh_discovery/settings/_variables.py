"""The variables that Istio's control plane reads, and ours; how each counts.

Source: pilot/pkg/features, pilot/pkg/bootstrap and pkg/security in the Go module istio.io/istio,
and deployment.yaml of its chart istio-discovery.
"""

from istio_settings import HONOURED, NO_EFFECT, REFUSED, Setting
from mesh_discovery.settings._traffic_variables import TRAFFIC

_AUTHORITY = (
    "would have certificates signed elsewhere, which this authority does not: put a certificate "
    "and key that it is to sign with in ROOT_CA_DIR, and unset the variable"
)
_BOUND = "the bound of"
_CACHE = "what was made for proxies is kept until it changes"
_KUBERNETES = "there is no Kubernetes client: objects are read from the files of --config-dir"
_CLUSTERS = "there are no remote clusters"
_AMBIENT = "ztunnels and waypoints are not served"
_STATUS = "no status is written to objects: `mesh-discovery status` shows it"
_INJECTION = "pods are not injected"
_LEAVE = "unset the variable"

OWN = (
    Setting("POD_NAME", HONOURED, "what responses name as their control plane; else the host"),
    Setting("POD_NAMESPACE", HONOURED, "own namespace, unless --namespace is given"),
    Setting("TRUST_DOMAIN", HONOURED, "unless mesh config says another"),
    Setting("ISTIOD_CUSTOM_HOST", HONOURED, "further names of the secure port's certificate"),
    Setting("ROOT_CA_DIR", HONOURED, "directory of the authority's certificate and key"),
    Setting("DEFAULT_WORKLOAD_CERT_TTL", HONOURED, "lifetime of certificates"),
    Setting("MAX_WORKLOAD_CERT_TTL", HONOURED, "longest lifetime that a request may name"),
    Setting("CITADEL_SELF_SIGNED_CA_CERT_TTL", HONOURED, "lifetime of a root that is made here"),
    Setting(
        "CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL", HONOURED, "how often its end is looked at"
    ),
    Setting(
        "CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE",
        HONOURED,
        "part of its lifetime that is left when it is certified anew",
    ),
    Setting(
        "CITADEL_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR",
        NO_EFFECT,
        "one process looks after the root, so that nothing has to be spread",
        silent=("true",),
    ),
    Setting(
        "CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE",
        NO_EFFECT,
        "a root that is made here has a key of P-256",
        silent=("2048",),
    ),
    Setting("ENABLE_CA_SERVER", HONOURED, "whether certificates are signed for workloads"),
    Setting("JWT_RULE", HONOURED, "issuer and keys of callers' tokens"),
    Setting(
        "DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES",
        HONOURED,
        "namespaces whose workloads may ask for all debug pages over xDS",
    ),
    Setting("ENABLE_DEBUG_ON_HTTP", HONOURED, "whether there are debug pages, also over xDS"),
    Setting("TOKEN_AUDIENCES", HONOURED, "audiences of callers' tokens, unless --jwt-audience"),
    Setting(
        "REVISION",
        NO_EFFECT,
        "objects of every revision are served",
        silent=("default",),
        quiet=True,
    ),
    Setting(
        "CLUSTER_ID",
        NO_EFFECT,
        "each proxy says its cluster, and objects in files are of none",
        silent=("Kubernetes",),
        quiet=True,
    ),
    Setting("SERVICE_ACCOUNT", NO_EFFECT, "the control plane calls no other", quiet=True),
    Setting(
        "PLATFORM",
        NO_EFFECT,
        "nothing is done differently on a platform",
        silent=("default",),
        quiet=True,
    ),
    Setting("SHARED_MESH_CONFIG", NO_EFFECT, "name one file with --mesh-config"),
    Setting(
        "ISTIO_MULTIROOT_MESH",
        NO_EFFECT,
        "proxies are always told all roots",
        silent=("true", "false"),
    ),
    Setting(
        "UNSAFE_PILOT_ENABLE_RUNTIME_ASSERTIONS", NO_EFFECT, "there are none", silent=("false",)
    ),
    Setting("UNSAFE_ENABLE_ADMIN_ENDPOINTS", NO_EFFECT, "no page ends a stream", silent=("false",)),
)

SECURITY = (
    Setting(
        "XDS_AUTH",
        REFUSED,
        "would believe callers without proof: callers over TLS always prove who they are, and "
        f"--believe-plaintext believes those of the plaintext port; {_LEAVE}",
        silent=("true",),
    ),
    Setting(
        "XDS_AUTH_PLAINTEXT",
        NO_EFFECT,
        "callers in plaintext prove nothing and get what is exported to all namespaces",
        silent=("false",),
    ),
    Setting(
        "PILOT_ENABLE_XDS_IDENTITY_CHECK",
        REFUSED,
        f"would give a workload the configuration of others: {_LEAVE}",
        silent=("true",),
    ),
    Setting(
        "ENABLE_DEBUG_ENDPOINT_AUTH",
        REFUSED,
        "would show debug pages of all namespaces to every workload: name the namespaces that may "
        f"see them in DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES, and {_LEAVE}",
        silent=("true",),
    ),
    Setting(
        "PILOT_SKIP_VALIDATE_TRUST_DOMAIN",
        REFUSED,
        "would let in other trust domains unseen: name them in trustDomainAliases of mesh config, "
        f"and {_LEAVE}",
        silent=("false",),
    ),
    Setting(
        "JWKS_RESOLVER_INSECURE_SKIP_VERIFY",
        REFUSED,
        f"would take keys from any server that answers: {_LEAVE}, and make the issuer's root known "
        "to the machine (SSL_CERT_FILE)",
        silent=("false",),
    ),
    Setting(
        "ISTIO_WORKLOAD_ENTRY_VALIDATE_IDENTITY",
        REFUSED,
        f"would let a workload register as another: {_LEAVE}",
        silent=("true",),
    ),
    Setting(
        "PILOT_CERT_PROVIDER",
        REFUSED,
        "is no source of the secure port's certificate here, which the authority signs: set "
        "istiod, or unset it",
        silent=("istiod",),
    ),
    Setting(
        "COMPLIANCE_POLICY",
        REFUSED,
        "restricts cryptography to validated modules, and this control plane's libraries are not "
        f"validated: {_LEAVE}, or run a control plane that is",
    ),
    Setting("EXTERNAL_CA", REFUSED, _AUTHORITY),
    Setting("K8S_SIGNER", REFUSED, _AUTHORITY),
    Setting("CERT_SIGNER_DOMAIN", REFUSED, _AUTHORITY),
    Setting(
        "CA_TRUSTED_NODE_ACCOUNTS",
        NO_EFFECT,
        "certificates are signed for the caller alone, not for other workloads of its node",
        quiet=True,
    ),
    Setting("TRUSTED_GATEWAY_CIDR", NO_EFFECT, "no header proves an identity"),
    Setting("TOKEN_ISSUER", NO_EFFECT, "--jwt-issuer or JWT_RULE names it"),
    Setting("AUDIENCE", NO_EFFECT, "--jwt-audience or TOKEN_AUDIENCES names it"),
    Setting("USE_REMOTE_CERTS", NO_EFFECT, _CLUSTERS, silent=("false",)),
    Setting(
        "USE_CACERTS_FOR_SELF_SIGNED_CA",
        NO_EFFECT,
        "a root that is made here is kept in ROOT_CA_DIR",
        silent=("false",),
    ),
    Setting("JWT_POLICY", NO_EFFECT, "tokens are checked by JWT_RULE", silent=("third-party-jwt",)),
    Setting("PILOT_ENABLE_CA_CRL", NO_EFFECT, "the list is served at /ca.crl", silent=("true",)),
    Setting(
        "ENABLE_XDS_API_GENERATOR_AUTH",
        NO_EFFECT,
        "objects are not served over xDS",
        silent=("true",),
    ),
)

PUSHES = (
    Setting("PILOT_DEBOUNCE_AFTER", HONOURED, "a push waits until no change came for this long"),
    Setting("PILOT_DEBOUNCE_MAX", HONOURED, "but never longer than this"),
    Setting("PILOT_PUSH_THROTTLE", HONOURED, "clients that are written to at once; 0: 100"),
    Setting("PILOT_MAX_REQUESTS_PER_SECOND", HONOURED, "new streams a second; 0: no limit"),
    Setting(
        "PILOT_XDS_SEND_TIMEOUT",
        HONOURED,
        "a client that reads nothing for this long is closed; 60 s unless given; 0: none is",
    ),
    Setting("ISTIO_GPRC_MAXSTREAMS", HONOURED, "streams of one connection"),
    Setting(
        "ISTIO_GPRC_MAXRECVMSGSIZE", HONOURED, "bytes of the largest request; 16 MiB unless given"
    ),
    Setting("GRPC_KEEPALIVE_INTERVAL", HONOURED, "where --keepaliveInterval is not given"),
    Setting("GRPC_KEEPALIVE_TIMEOUT", HONOURED, "where --keepaliveTimeout is not given"),
    Setting(
        "PILOT_ENABLE_EDS_DEBOUNCE",
        NO_EFFECT,
        "changes of endpoints are gathered for half a second at the most",
        silent=("true",),
    ),
    Setting("ISTIO_DELTA_XDS", NO_EFFECT, "each client chooses the dialect", silent=("true",)),
    Setting(
        "PILOT_ENABLE_FLOW_CONTROL",
        NO_EFFECT,
        "a type waits for its ACK where order needs it",
        silent=("false",),
    ),
    Setting(
        "PILOT_FLOW_CONTROL_TIMEOUT",
        NO_EFFECT,
        "a type waits for its ACK where order needs it",
        silent=("15s",),
    ),
    *(
        Setting(name, NO_EFFECT, _CACHE, silent=silent)
        for name, silent in (
            ("PILOT_ENABLE_XDS_CACHE", ("true",)),
            ("PILOT_ENABLE_CDS_CACHE", ("true",)),
            ("PILOT_ENABLE_RDS_CACHE", ("true",)),
            ("PILOT_XDS_CACHE_SIZE", ("60000",)),
            ("PILOT_XDS_CACHE_STATS", ("false",)),
            ("PILOT_XDS_CACHE_INDEX_CLEAR_INTERVAL", ("5s",)),
            ("ENABLE_LAZY_SIDECAR_EVALUATION", ("true",)),
            ("PILOT_CONVERT_SIDECAR_SCOPE_CONCURRENCY", ("1",)),
        )
    ),
    Setting("ENABLE_VTPROTOBUF", NO_EFFECT, "messages are written by upb", silent=("true",)),
    Setting("MUTEX_PROFILE_FRACTION", NO_EFFECT, "there are no profiles", silent=("1000",)),
    Setting(
        "PILOT_ENABLE_CONFIG_DISTRIBUTION_TRACKING",
        NO_EFFECT,
        "it is always told at /debug/distribution",
        silent=("true",),
    ),
)

KUBERNETES = (
    Setting("KUBECONFIG", NO_EFFECT, _KUBERNETES, quiet=True),
    Setting("KUBERNETES_SERVICE_HOST", NO_EFFECT, _KUBERNETES, quiet=True),
    *(
        Setting(name, NO_EFFECT, _KUBERNETES, silent=silent)
        for name, silent in (
            ("ISTIO_WATCH_NAMESPACE", ()),
            ("ISTIO_KUBE_CLIENT_CONTENT_TYPE", ("protobuf",)),
            ("PILOT_IGNORE_RESOURCES", ()),
            ("PILOT_INCLUDE_RESOURCES", ()),
            ("PILOT_ENABLE_NODE_UNTAINT_CONTROLLERS", ("false",)),
            ("PILOT_NODE_UNTAINT_CONTROLLERS_TAINT_NAME", ("cni.istio.io/not-ready",)),
            ("PILOT_CA_CERT_CONFIGMAP", ("istio-ca-root-cert",)),
            ("PILOT_CRL_CONFIGMAP", ("istio-ca-crl",)),
            ("ENABLE_CLUSTER_TRUST_BUNDLE_API", ("false",)),
            ("ENABLE_LEADER_ELECTION", ("true",)),
            ("ENABLE_PROXY_FIND_POD_BY_IP", ("false",)),
            ("PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER", ("true",)),
            ("PILOT_ENABLE_GATEWAY_API_GATEWAYCLASS_CONTROLLER", ("true",)),
            ("PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS", ("true",)),
            ("PILOT_GATEWAY_API_DEFAULT_GATEWAYCLASS_NAME", ("istio",)),
            ("ENABLE_GATEWAY_API_MANUAL_DEPLOYMENT", ("true",)),
            ("ISTIO_ENABLE_CONTROLLER_QUEUE_METRICS", ("false",)),
            ("K8S_INGRESS_NS", ("istio-system",)),
        )
    ),
    *(
        Setting(name, NO_EFFECT, _STATUS, silent=silent)
        for name, silent in (
            ("PILOT_ENABLE_STATUS", ("false",)),
            ("PILOT_STATUS_MAX_WORKERS", ("100",)),
            ("PILOT_ENABLE_GATEWAY_API_STATUS", ("true",)),
            ("PILOT_ANALYSIS_INTERVAL", ("10s",)),
        )
    ),
    # The chart sets it in every installation.
    Setting("PILOT_ENABLE_ANALYSIS", NO_EFFECT, _STATUS, silent=("false",), quiet=True),
    *(
        Setting(name, NO_EFFECT, _CLUSTERS, silent=silent)
        for name, silent in (
            ("EXTERNAL_ISTIOD", ("false",)),
            ("LOCAL_CLUSTER_SECRET_WATCHER", ("false",)),
            ("PILOT_MULTICLUSTER_KUBECONFIG_PATH", ()),
            ("PILOT_INSECURE_MULTICLUSTER_KUBECONFIG_OPTIONS", ()),
            ("PILOT_REMOTE_CLUSTER_TIMEOUT", ("30s",)),
            ("PILOT_ENABLE_CROSS_CLUSTER_WORKLOAD_ENTRY", ("true",)),
            ("PILOT_ENABLE_REMOTE_CREDENTIALS_CONTROLLER", ("true",)),
            ("ENABLE_MULTICLUSTER_HEADLESS", ("true",)),
            ("ENABLE_MCS_AUTO_EXPORT", ("false",)),
            ("ENABLE_MCS_SERVICE_DISCOVERY", ("false",)),
            ("ENABLE_MCS_HOST", ("false",)),
            ("ENABLE_MCS_CLUSTER_LOCAL", ("false",)),
            ("MCS_API_GROUP", ("multicluster.x-k8s.io",)),
            ("MCS_API_VERSION", ("v1alpha1",)),
        )
    ),
    *(
        Setting(name, NO_EFFECT, _INJECTION, silent=silent)
        for name, silent in (
            ("INJECT_ENABLED", ("false",)),
            ("INJECTION_WEBHOOK_CONFIG_NAME", ("istio-sidecar-injector",)),
            ("ENABLE_NATIVE_SIDECARS", ("auto",)),
        )
    ),
    Setting(
        "VALIDATION_WEBHOOK_CONFIG_NAME",
        NO_EFFECT,
        "there is no webhook: `mesh-discovery check` validates files",
        silent=("istio-istio-system",),
    ),
)

AMBIENT = (
    *(
        Setting(name, NO_EFFECT, _AMBIENT, silent=("false",))
        for name in (
            "PILOT_ENABLE_AMBIENT",
            "PILOT_ENABLE_AMBIENT_WAYPOINTS",
            "PILOT_ENABLE_SENDING_HBONE",
            "PILOT_ENABLE_SIDECAR_LISTENING_HBONE",
            "PILOT_PREFER_SENDING_HBONE",
            "PILOT_ENABLE_AGENTGATEWAY",
            "PILOT_HBONE_INITIAL_CONNECTION_WINDOW_SIZE",
            "PILOT_HBONE_INITIAL_STREAM_WINDOW_SIZE",
            "AMBIENT_ENABLE_BAGGAGE",
            "AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY",
            "AMBIENT_ENABLE_MULTI_NETWORK",
            "AMBIENT_ENABLE_MULTI_NETWORK_INGRESS",
            "AMBIENT_ENABLE_MULTI_NETWORK_WAYPOINT",
            "AMBIENT_ENABLE_STATUS",
            "ENABLE_INGRESS_WAYPOINT_ROUTING",
            "ENABLE_LAYERED_WAYPOINT_AUTHORIZATION_POLICIES",
        )
    ),
    Setting("AMBIENT_SCOPED_ADDRESS_PUSHES", NO_EFFECT, _AMBIENT, silent=("true",)),
    Setting("PILOT_AUTO_ALLOW_WAYPOINT_POLICY", NO_EFFECT, _AMBIENT, silent=("true", "false")),
)

SURROUNDINGS = tuple(
    Setting(name, NO_EFFECT, "it bounds a program in Go, which this one is not", quiet=True)
    for name in ("GOMEMLIMIT", "GOMAXPROCS", "GOGC", "GODEBUG")
)

OUR_OWN = (
    Setting("CERT_SELF_RENEWAL_LIMIT", HONOURED, "how long a workload renews without a token"),
    Setting("MESH_DISCOVERY_ALLOW_UNSUPPORTED", HONOURED, "`--allow-unsupported`"),
    Setting("MESH_DISCOVERY_BELIEVE_PLAINTEXT", HONOURED, "`--believe-plaintext`"),
    Setting("MESH_DISCOVERY_BELIEVE_TIMESTAMPS", HONOURED, "`--believe-timestamps`"),
    Setting("MESH_DISCOVERY_CA_SIGNERS", HONOURED, "`--ca-signers`"),
    Setting("MESH_DISCOVERY_KEY_SET_NETWORKS", HONOURED, "`--key-set-networks`"),
    Setting("MESH_DISCOVERY_PLAINTEXT_SECRETS", HONOURED, "`--plaintext-secrets`"),
    Setting("MESH_DISCOVERY_STRICT_NAMESPACES", HONOURED, "`--strict-namespaces`"),
    Setting("MESH_DISCOVERY_GRPC_CONNECTIONS", HONOURED, f"{_BOUND} a gRPC port's connections"),
    Setting("MESH_DISCOVERY_GRPC_CONNECTIONS_PER_PEER", HONOURED, f"{_BOUND} one address's"),
    Setting("MESH_DISCOVERY_HTTP_CONNECTIONS", HONOURED, f"{_BOUND} an HTTP port's connections"),
    Setting("MESH_DISCOVERY_HTTP_CONNECTIONS_PER_PEER", HONOURED, f"{_BOUND} one address's"),
    Setting("MESH_DISCOVERY_WORKLOADS", HONOURED, f"{_BOUND} workloads that register"),
    Setting("MESH_DISCOVERY_WORKLOADS_PER_IDENTITY", HONOURED, f"{_BOUND} one identity's"),
    Setting("MESH_DISCOVERY_XDS_KEPT_MIB", HONOURED, f"{_BOUND} what clients say"),
    Setting("MESH_DISCOVERY_XDS_KEPT_MIB_PER_IDENTITY", HONOURED, f"{_BOUND} what one says"),
    Setting("MESH_DISCOVERY_XDS_KEPT_MIB_PER_STREAM", HONOURED, f"{_BOUND} what one stream says"),
    Setting("MESH_DISCOVERY_XDS_PENDING_MIB", HONOURED, f"{_BOUND} responses not read"),
    Setting("MESH_DISCOVERY_XDS_PENDING_MIB_PER_IDENTITY", HONOURED, f"{_BOUND} one identity's"),
)

VARIABLES = (
    *OWN,
    *SECURITY,
    *PUSHES,
    *TRAFFIC,
    *KUBERNETES,
    *AMBIENT,
    *SURROUNDINGS,
    *OUR_OWN,
)
