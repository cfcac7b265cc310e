"""The variables that Istio's agents read, and ours; how each counts."""

from istio_settings import HONOURED, NO_EFFECT, REFUSED, Setting

_INJECTION = "it is read by the start script and the rules that capture traffic, not by the agent"
_KEY_TOKEN = "mount a token, or name a provisioned certificate in PROV_CERT"  # noqa: S105 - a text
_LIMITS = "the limits of the agent's own sockets are fixed"
_STATE = "whether it is kept on disk for the agent's next start"
_STATUS = "the status port's"
_STS = "with --stsPort: the authorization server's"

IDENTITY = (
    Setting("INSTANCE_IP", HONOURED, "the workload's first address; else the machine's own"),
    Setting("HOST_IP", HONOURED, "stands for `$(HOST_IP)` in addresses and bootstrap overrides"),
    Setting("POD_NAME", HONOURED, "part of the node id"),
    Setting("POD_NAMESPACE", HONOURED, "part of the node id, of the identity, of the domain"),
    Setting("SERVICE_ACCOUNT", HONOURED, "part of the identity"),
    Setting("TRUST_DOMAIN", HONOURED, "the first part of the identity"),
    Setting("PROXY_CONFIG", HONOURED, "a layer of ProxyConfig, above the mesh config file"),
    Setting("ISTIO_META_*", HONOURED, "node metadata, as text"),
    Setting("ISTIO_METAJSON_*", HONOURED, "node metadata, as a JSON object; `..._LABELS`: labels"),
    Setting("ISTIO_META_CLUSTER_ID", HONOURED, "also sent to the control plane as `ClusterID`"),
    Setting(
        "ISTIO_KUBE_APP_PROBERS", HONOURED, "probes of the application, answered on the status port"
    ),
    Setting(
        "ISTIO_PROMETHEUS_ANNOTATIONS", HONOURED, "the application's metrics, merged into scrapes"
    ),
    Setting("ISTIO_CPU_LIMIT", HONOURED, "Envoy's worker threads where `concurrency` is not given"),
    Setting("CLOUD_PLATFORM", HONOURED, "`aws`, `azure`, `gcp` or `none`, else told by the DMI"),
    Setting("GCP_METADATA", HONOURED, "`PROJECT|NUMBER|CLUSTER|ZONE`, in place of asking GCP"),
    Setting("GCP_ZONE", HONOURED, "the zone on GCP, in place of asking"),
    Setting("GKE_CLUSTER_URL", HONOURED, "the cluster's URL on GCP, in PLATFORM_METADATA"),
    Setting("GCP_QUOTA_PROJECT", NO_EFFECT, "the agent calls no service of Google's"),
    Setting("ISTIO_DUAL_STACK", HONOURED, "Envoy's own listeners listen on IPv6 as well"),
)

SECURITY = (
    Setting(
        "CA_PROVIDER",
        REFUSED,
        "is no certificate authority that the agent knows: Citadel is the one that speaks Istio's "
        "protocol, name its address in CA_ADDR",
        silent=("Citadel",),
        by_value={
            "GoogleCA": "is an authority whose protocol the agent does not speak: use Citadel and "
            "name an authority that speaks Istio's protocol in CA_ADDR",
            "GoogleCAS": "is an authority whose protocol the agent does not speak: use Citadel and "
            "name an authority that speaks Istio's protocol in CA_ADDR",
            "GkeWorkloadCertificate": "needs no authority: unset it, and mount the certificate at "
            "./var/run/secrets/workload-spiffe-credentials, where the agent finds it by itself",
        },
    ),
    Setting("CA_ADDR", HONOURED, "the authority's address; else `discoveryAddress`"),
    Setting("ISTIOD_SAN", HONOURED, "the name that the control plane's certificate must bear"),
    Setting(
        "PILOT_CERT_PROVIDER",
        HONOURED,
        "which roots the control plane is checked against: `istiod` the mounted ones, `custom` "
        "`./etc/certs/root-cert.pem`, `kubernetes` the Kubernetes authority's, `none` none: then "
        "CA_ROOT_CA and XDS_ROOT_CA are needed",
    ),
    Setting(
        "JWT_POLICY",
        NO_EFFECT,
        "the token is always the one at ./var/run/secrets/tokens/istio-token",
        silent=("third-party-jwt",),
    ),
    Setting("XDS_ROOT_CA", HONOURED, "roots of the control plane, or `SYSTEM`"),
    Setting("CA_ROOT_CA", HONOURED, "roots of the authority, or `SYSTEM`"),
    Setting("PROV_CERT", HONOURED, "directory of a provisioned certificate"),
    Setting("OUTPUT_CERTS", HONOURED, "directory that the certificate is written to"),
    Setting("FILE_MOUNTED_CERTS", HONOURED, "the certificate comes from files only"),
    Setting("SECRET_TTL", HONOURED, "the lifetime requested of the authority"),
    Setting("SECRET_GRACE_PERIOD_RATIO", HONOURED, "the part of it that is left at renewal"),
    Setting("SECRET_GRACE_PERIOD_RATIO_JITTER", HONOURED, "by how much renewals are spread"),
    Setting(
        "FILE_DEBOUNCE_DURATION",
        NO_EFFECT,
        "a certificate's files are read once they fit each other",
        silent=("100ms",),
    ),
    Setting("WORKLOAD_RSA_KEY_SIZE", HONOURED, "an RSA key of 2048, 3072 or 4096 bits; else P-256"),
    Setting("PKCS8_KEY", HONOURED, "the key's form in PEM"),
    Setting("ECC_SIGNATURE_ALGORITHM", HONOURED, "`ECDSA`, which is also the default"),
    Setting("ECC_CURVE", HONOURED, "`P256` or `P384`, with ECC_SIGNATURE_ALGORITHM"),
    Setting(
        "CREDENTIAL_FETCHER_TYPE",
        REFUSED,
        "is a source of tokens that the agent does not have: unset it, and " + _KEY_TOKEN,
        silent=("JWT",),
        by_value={
            "GoogleComputeEngine": "would take tokens from Google's metadata server, which the "
            "agent does not: unset it, and " + _KEY_TOKEN
        },
    ),
    Setting(
        "CREDENTIAL_IDENTITY_PROVIDER",
        NO_EFFECT,
        "tokens are not exchanged for the control plane",
        silent=("GoogleComputeEngine",),
    ),
    Setting(
        "XDS_AUTH_PROVIDER",
        REFUSED,
        "would exchange the token before it is shown to the control plane, which the agent does "
        "not: unset it if the control plane accepts the workload's own token",
    ),
    Setting(
        "XDS_AUTH_PLAINTEXT",
        NO_EFFECT,
        "the control plane decides whom it believes",
        silent=("false",),
    ),
    Setting(
        "REQUIRE_3P_TOKEN",
        NO_EFFECT,
        "the control plane checks the token's audience",
        silent=("true", "false"),
    ),
    Setting(
        "TOKEN_AUDIENCES",
        NO_EFFECT,
        "the control plane checks the token's audience",
        silent=("istio-ca",),
    ),
    Setting("ISTIO_META_CERT_SIGNER", HONOURED, "the signer that the authority is asked for"),
    Setting("WORKLOAD_IDENTITY_SOCKET_FILE", HONOURED, "name of the secret socket"),
    Setting("PILOT_ENABLE_CA_CRL", HONOURED, "whether a mounted revocation list is followed"),
    Setting(
        "COMPLIANCE_POLICY",
        REFUSED,
        "restricts cryptography to validated modules, and neither this agent's libraries nor a "
        "standard Envoy are validated: unset it, or run an agent and an Envoy that are",
    ),
    Setting("CA_HEADER_*", HONOURED, "call metadata for the authority"),
    Setting("XDS_HEADER_*", HONOURED, "call metadata for the control plane"),
    Setting(
        "KUBERNETES_SERVICE_HOST", HONOURED, "in a pod: files of OUTPUT_CERTS are for all users"
    ),
    Setting("SSL_CERT_FILE", HONOURED, "the machine's roots, for `SYSTEM`"),
    Setting("SSL_CERT_DIR", HONOURED, "directories of further ones"),
)

CONFIGURATION = (
    Setting(
        "PROXY_XDS_VIA_AGENT",
        NO_EFFECT,
        "Envoy always gets its configuration through the agent",
        silent=("true",),
    ),
    Setting(
        "PROXY_XDS_DEBUG_VIA_AGENT",
        HONOURED,
        "the control plane is asked on port 15004 of loopback too, unless this is false; besides "
        "/debug/control-plane on the status port",
    ),
    Setting("PROXY_XDS_DEBUG_VIA_AGENT_PORT", HONOURED, "another port than 15004 for that"),
    Setting(
        "ISTIO_DELTA_XDS",
        HONOURED,
        "true, the default: Envoy asks for changes only; false: for all of each type. With a"
        " control plane that serves one of them alone, messages are translated",
    ),
    Setting(
        "PROXY_CONFIG_XDS_AGENT",
        HONOURED,
        "whether roots and ProxyConfigs come from the control plane",
    ),
    Setting(
        "BOOTSTRAP_XDS_AGENT",
        NO_EFFECT,
        "the bootstrap is made here; ISTIO_BOOTSTRAP names one of your own",
        silent=("false",),
    ),
    Setting("ISTIO_META_DNS_CAPTURE", HONOURED, "answer a sidecar's DNS queries"),
    Setting("ISTIO_META_DNS_AUTO_ALLOCATE", HONOURED, "addresses for services that have none"),
    Setting("ISTIO_META_ENABLE_DNS_SERVER", HONOURED, "answer a router's DNS queries"),
    Setting("DNS_PROXY_ADDR", HONOURED, "where DNS is answered"),
    Setting("DNS_FORWARD_PARALLEL", HONOURED, "ask all upstream resolvers at once"),
    Setting("DNS_FORWARD_TIMEOUT", HONOURED, "when a query to the upstream resolvers is given up"),
    Setting(
        "GRPC_XDS_BOOTSTRAP",
        HONOURED,
        "where the gRPC bootstrap is written; beside an Envoy the socket in it is not Envoy's",
    ),
    Setting("DISABLE_ENVOY", HONOURED, "an agent for a gRPC application without an Envoy"),
    Setting(
        "GRPC_KEEPALIVE_INTERVAL",
        NO_EFFECT,
        "connections are asked for a sign of life every 30 s, where that is too often less often",
        silent=("30s",),
    ),
    Setting(
        "GRPC_KEEPALIVE_TIMEOUT",
        NO_EFFECT,
        "a connection without a sign of life is given up after 10 s",
        silent=("10s",),
    ),
    Setting("ISTIO_GPRC_MAXSTREAMS", NO_EFFECT, _LIMITS, silent=("100000",)),
    Setting(
        "ISTIO_GPRC_MAXRECVMSGSIZE",
        NO_EFFECT,
        "messages of up to 256 MiB are relayed",
        silent=("4194304",),
    ),
    Setting(
        "PILOT_XDS_SEND_TIMEOUT",
        HONOURED,
        "how long a side may not read before its stream ends, 60 s unless given; 0: for ever",
    ),
    Setting(
        "WASM_INSECURE_REGISTRIES",
        HONOURED,
        "hosts of Wasm modules whose certificate is not verified, or that have none",
    ),
    Setting("WASM_MODULE_EXPIRY", HONOURED, "when a Wasm module that nothing uses is removed"),
    Setting("WASM_PURGE_INTERVAL", HONOURED, "how often such modules are looked for"),
    Setting("WASM_HTTP_REQUEST_TIMEOUT", HONOURED, "of one request for a Wasm module"),
    Setting("WASM_HTTP_REQUEST_MAX_RETRIES", HONOURED, "further requests after a failed one"),
    Setting(
        "ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION",
        HONOURED,
        "whether the agent fetches Envoy's Wasm modules",
    ),
    Setting("ISTIO_WASM_MAX_BINARY_SIZE_BYTES", HONOURED, "how large a Wasm module may be"),
    Setting("BLOCKED_CIDRS_IN_WASM_FETCH", HONOURED, "where no Wasm module is fetched from"),
    Setting("PEER_METADATA_DISCOVERY", HONOURED, "node metadata METADATA_DISCOVERY"),
)

ENVOY = (
    Setting("ENVOY_STATUS_PORT", HONOURED, "port of Envoy's readiness listener"),
    Setting("ENVOY_PROMETHEUS_PORT", HONOURED, "port of Envoy's metrics listener"),
    Setting("ENVOY_SECURE_METRICS_PORT", HONOURED, "the same over mutual TLS"),
    Setting("ENVOY_SECURE_MERGED_METRICS_PORT", HONOURED, "the agent's metrics over mutual TLS"),
    Setting(
        "ENVOY_STATUS_PORT_ENABLE_PROXY_PROTOCOL",
        HONOURED,
        "the readiness listener expects the PROXY protocol",
    ),
    Setting("METRICS_LOCALHOST_ACCESS_ONLY", HONOURED, "metrics for this machine only"),
    Setting("PILOT_AGENT_MERGE_ENVOY_STATS", HONOURED, "whether scrapes have Envoy's metrics"),
    Setting("MINIMUM_DRAIN_DURATION", HONOURED, "with EXIT_ON_ZERO_ACTIVE_CONNECTIONS"),
    Setting("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", HONOURED, "draining lasts MINIMUM_DRAIN_DURATION"),
    Setting(
        "ENVOY_SKIP_DEPRECATED_LOGS",
        HONOURED,
        "Envoy does not warn of deprecated fields, if that Envoy has the flag",
    ),
    Setting(
        "HTTP_STRIP_FRAGMENT_FROM_PATH_UNSAFE_IF_DISABLED",
        NO_EFFECT,
        "no Envoy of today has this switch: a fragment never reaches routes and policies",
        silent=("true",),
    ),
    Setting("ISTIO_BOOTSTRAP", HONOURED, "a bootstrap of the user's own; no Go template"),
    Setting("ISTIO_BOOTSTRAP_OVERRIDE", HONOURED, "a file that Envoy merges over the bootstrap"),
    Setting(
        "ISTIO_ENVOY_ENABLE_CORE_DUMP",
        HONOURED,
        "core files are not forbidden; the agent forbids them, as they hold the workload's key",
    ),
    Setting("REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION", HONOURED, "probes go to localhost"),
    Setting(
        "ENABLE_PROBE_KEEPALIVE_CONNECTIONS",
        NO_EFFECT,
        "each probe of the application has a connection of its own",
        silent=("false",),
    ),
    Setting("ISTIO_ENABLE_HTTP2_PROBING", HONOURED, "whether probes over TLS may use HTTP/2"),
    Setting(
        "ENVOY_USER",
        NO_EFFECT,
        "Envoy runs as the user that the agent runs as",
        silent=("istio-proxy",),
    ),
)

SURROUNDINGS = (
    *(
        Setting(name, NO_EFFECT, "it bounds a program in Go, which this agent is not", quiet=True)
        for name in ("GOMEMLIMIT", "GOMAXPROCS", "GOGC", "GODEBUG")
    ),
    *(
        Setting(name, NO_EFFECT, _INJECTION, quiet=True)
        for name in (
            "ISTIO_NAMESPACE",
            "ISTIO_SERVICE",
            "ISTIO_SVC_IP",
            "ISTIO_AGENT_FLAGS",
            "ISTIO_CUSTOM_IP_TABLES",
            "ISTIO_SERVICE_CIDR",
            "ISTIO_SERVICE_EXCLUDE_CIDR",
            "ISTIO_INBOUND_PORTS",
            "ISTIO_LOCAL_EXCLUDE_PORTS",
            "ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE",
            "ISTIO_INBOUND_INTERCEPTION_MODE",
            "ISTIO_INBOUND_TPROXY_MARK",
            "ISTIO_INBOUND_TPROXY_ROUTE_TABLE",
            "ISTIO_EXCLUDE_INTERFACES",
            "ISTIO_OUTBOUND_PORTS",
            "ISTIO_OUTBOUND_OWNER_GROUPS",
            "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE",
            "ISTIO_CP_AUTH",
            "ISTIO_SYSTEM_NAMESPACE",
            "ISTIO_PILOT_PORT",
            "ISTIO_LOG_DIR",
            "ISTIO_BIN_BASE",
            "ISTIO_CFG",
            "CANONICAL_SERVICE",
            "CANONICAL_REVISION",
        )
    ),
)

OUR_OWN = (
    Setting("ENVOY_PATH", HONOURED, "which Envoy to run"),
    Setting("AWS_EC2_METADATA_DISABLED", HONOURED, "AWS is not asked where the machine is"),
    Setting("AWS_EC2_METADATA_SERVICE_ENDPOINT", HONOURED, "where AWS is asked that"),
    Setting("GCE_METADATA_HOST", HONOURED, "where GCP is asked that"),
    Setting("MESH_AGENT_ADAPT_TO_ENVOY", HONOURED, "what Envoy lacks of Istio's own is translated"),
    Setting("MESH_AGENT_APPLICATION_STOP_TIMEOUT", HONOURED, "how long the application may end"),
    Setting("MESH_AGENT_BIND_ADDRESS", HONOURED, "one address for all that listens"),
    Setting("MESH_AGENT_ENVOY_MAX_HEAP", HONOURED, "how large Envoy's heap may get"),
    Setting("MESH_AGENT_EXIT_WITH", HONOURED, "the process that the agent ends with"),
    Setting(
        "MESH_AGENT_XDS_ON_DISCONNECT",
        HONOURED,
        "`end` ends Envoy's stream with the one to the control plane; else it stays open",
    ),
    Setting(
        "MESH_AGENT_FURTHER_CONTROL_PLANES",
        HONOURED,
        "control planes that are used, in this order, while `discoveryAddress` fails",
    ),
    Setting("MESH_AGENT_GRPC_REFRESH_INTERVAL", HONOURED, "how often gRPC reads certificates"),
    Setting("MESH_AGENT_HOT_RESTART", HONOURED, "whether an Envoy may take over from another"),
    Setting("MESH_AGENT_QUARANTINE", HONOURED, "refused resources keep no others from Envoy"),
    Setting("MESH_AGENT_READY_WITHOUT_LISTENERS", HONOURED, "a gateway is ready without listeners"),
    Setting("MESH_AGENT_RESTART_ENVOY", HONOURED, "whether a crashed Envoy is started again"),
    Setting("MESH_AGENT_SAVE_CERTIFICATE", HONOURED, f"{_STATE}: the certificate, with its key"),
    Setting("MESH_AGENT_SAVE_CONFIGURATION", HONOURED, f"{_STATE}: Envoy's configuration"),
    Setting("MESH_AGENT_SAVED_MAX_AGE", HONOURED, "how long saved configuration counts"),
    Setting("MESH_AGENT_SAVED_MAX_BYTES", HONOURED, "how much configuration is saved"),
    Setting("MESH_AGENT_STALE_START_AFTER", HONOURED, "when Envoy gets saved configuration"),
    Setting("MESH_AGENT_STATE_DIRECTORY", HONOURED, "where state is kept over restarts"),
    Setting("MESH_AGENT_STATUS_CONNECTIONS", HONOURED, f"{_STATUS} connections"),
    Setting("MESH_AGENT_STATUS_CONNECTIONS_PER_PEER", HONOURED, f"{_STATUS} of one address"),
    Setting("MESH_AGENT_STS_URL", HONOURED, f"{_STS} token endpoint"),
    Setting("MESH_AGENT_STS_AUDIENCE", HONOURED, f"{_STS} audiences, where none is asked for"),
    Setting("MESH_AGENT_STS_RESOURCE", HONOURED, f"{_STS} resources, where none is asked for"),
    Setting("MESH_AGENT_STS_SCOPE", HONOURED, f"{_STS} scope, where none is asked for"),
    Setting("MESH_AGENT_STS_CLIENT_ID", HONOURED, f"{_STS} name for this client"),
    Setting("MESH_AGENT_STS_CLIENT_SECRET_FILE", HONOURED, f"{_STS} secret of this client"),
    Setting("MESH_AGENT_STS_ROOT_FILE", HONOURED, f"{_STS} roots"),
    Setting("MESH_AGENT_WASM_CACHE", HONOURED, "directory of Wasm modules"),
)

VARIABLES = (*IDENTITY, *SECURITY, *CONFIGURATION, *ENVOY, *SURROUNDINGS, *OUR_OWN)
