"""The flags of `pilot-discovery discovery`, of release 1.4 to today; how each counts.

Source: pilot/cmd/pilot-discovery/app/cmd.go in the Go module istio.io/istio, and what it attaches
of pkg/log, pkg/ctrlz and pkg/keepalive.
"""

from istio_settings import HONOURED, NO_EFFECT, REFUSED, Setting

_FORMER = "Istio's control plane has not had it since 1.{}: {}"
_KUBERNETES = "there is no Kubernetes client: objects are read from the files of --config-dir"
_OWN_CERTIFICATE = (
    "would have the secure port serve a certificate of the user's own; here the authority signs "
    "it, for the names of discoveryAddress and ISTIOD_CUSTOM_HOST: leave the flag out, and put the "
    "user's authority in --ca-dir if clients are to trust that one"
)

HONOURED_FLAGS = (
    Setting("--configDir", HONOURED, "directory of the objects' files; else ./etc/istio/config"),
    Setting("--meshConfig", HONOURED, "mesh config file; else ./etc/istio/config/mesh if there"),
    Setting(
        "--networksConfig",
        HONOURED,
        "file of the networks; else ./etc/istio/config/meshNetworks if there",
    ),
    Setting("--namespace", HONOURED, "own namespace; also `-n`; else POD_NAMESPACE"),
    Setting("--domain", HONOURED, "DNS suffix of the mesh's services"),
    Setting("--httpAddr", HONOURED, "address of /ready"),
    Setting("--grpcAddr", HONOURED, "address of xDS in plaintext; off unless given"),
    Setting("--secureGRPCAddr", HONOURED, "address of xDS and the authority over TLS"),
    Setting("--monitoringAddr", HONOURED, "address of /metrics, /version, /debug"),
    Setting("--shutdownDuration", HONOURED, "time to stop in, at the most"),
    Setting("--tls-min-version", HONOURED, "oldest TLS of the secure port, `1.2` or `1.3`"),
    Setting("--tls-cipher-suites", HONOURED, "cipher suites of TLS 1.2, by their names in IANA"),
    Setting("--keepaliveInterval", HONOURED, "silence after which a connection is pinged"),
    Setting("--keepaliveTimeout", HONOURED, "a ping that is not answered for so long ends it"),
    Setting(
        "--keepaliveMaxServerConnectionAge",
        HONOURED,
        "age at which a connection is asked to come anew, 10 s before it is closed",
    ),
    Setting("--log_target", HONOURED, "stdout, stderr and files; every line goes to each"),
    Setting("--log_as_json", HONOURED, "log JSON, one object a line"),
    Setting("--log_output_level", HONOURED, "level, or list of scope:level"),
    Setting("--log_stacktrace_level", HONOURED, "from which level on lines have a stack"),
    Setting("--log_caller", HONOURED, "scopes whose lines say where they come from"),
)

WITHOUT_EFFECT = (
    Setting(
        "--registries",
        NO_EFFECT,
        _KUBERNETES,
        by_value={"Mock": "objects are read from the files of --config-dir"},
    ),
    Setting("--clusterRegistriesNamespace", NO_EFFECT, "there are no remote clusters"),
    Setting("--kubeconfig", NO_EFFECT, _KUBERNETES),
    Setting("--cniNamespace", NO_EFFECT, "nodes are not watched for a CNI plugin"),
    Setting(
        "--clusterID",
        NO_EFFECT,
        "each proxy says its cluster, and objects in files are of none",
        silent=("Kubernetes",),
    ),
    Setting("--clusterAliases", NO_EFFECT, "there are no remote clusters"),
    Setting(
        "--httpsAddr", NO_EFFECT, "there are no webhooks: `mesh-discovery check` validates files"
    ),
    Setting(
        "--profile",
        NO_EFFECT,
        "the monitoring port serves no profiles",
        silent=("false",),
        boolean=True,
    ),
    Setting("--kubernetesApiQPS", NO_EFFECT, "there is no Kubernetes client", silent=("80",)),
    Setting("--kubernetesApiBurst", NO_EFFECT, "there is no Kubernetes client", silent=("160",)),
    Setting("--ctrlz_address", NO_EFFECT, "there is no ControlZ page", silent=("localhost",)),
    Setting("--ctrlz_port", NO_EFFECT, "there is no ControlZ page", silent=("9876",)),
    Setting("--caCertFile", REFUSED, _OWN_CERTIFICATE),
    Setting("--tlsCertFile", REFUSED, _OWN_CERTIFICATE),
    Setting("--tlsKeyFile", REFUSED, _OWN_CERTIFICATE),
)

FORMER = (
    Setting("--resync", NO_EFFECT, _FORMER.format(13, "files are followed as they change")),
    Setting(
        "--plugins",
        NO_EFFECT,
        _FORMER.format(13, "authentication and authorization are always there"),
        silent=("ext_authz,authn,authz", "authn,authz"),
    ),
    Setting("--appNamespace", NO_EFFECT, _FORMER.format(9, "all namespaces are served")),
    Setting(
        "--trust-domain",
        NO_EFFECT,
        _FORMER.format(9, "set TRUST_DOMAIN, or trustDomain in mesh config"),
    ),
    Setting("--secureGrpcAddr", NO_EFFECT, _FORMER.format(6, "it is --secureGRPCAddr now")),
    Setting("--consulserverURL", NO_EFFECT, _FORMER.format(8, "there is no Consul registry")),
    Setting("--mcpMaxMsgSize", NO_EFFECT, _FORMER.format(6, "there is no MCP client")),
    Setting("--mcpInitialWindowSize", NO_EFFECT, _FORMER.format(6, "there is no MCP client")),
    Setting("--mcpInitialConnWindowSize", NO_EFFECT, _FORMER.format(6, "there is no MCP client")),
    Setting("--basePort", NO_EFFECT, _FORMER.format(10, "each port has a flag")),
    Setting(
        "--disable-install-crds",
        NO_EFFECT,
        _FORMER.format(8, "there is no Kubernetes client"),
        boolean=True,
    ),
    *(
        Setting(name, NO_EFFECT, _FORMER.format(23, "--log_target names files"))
        for name in (
            "--log_rotate",
            "--log_rotate_max_age",
            "--log_rotate_max_backups",
            "--log_rotate_max_size",
        )
    ),
    Setting("--vklog", NO_EFFECT, "there is no Kubernetes client", silent=("0",)),
)

NOT_HONOURED = (*WITHOUT_EFFECT, *FORMER)
FLAGS = (*HONOURED_FLAGS, *NOT_HONOURED)
