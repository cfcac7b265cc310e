"""The flags of `pilot-agent proxy`, of release 1.4 to today, and ours; how each counts."""

from istio_settings import HONOURED, NO_EFFECT, Setting

_FORMER = "Istio's agent has not had it since 1.6: "
_FIELD = _FORMER + "set {} in ProxyConfig instead"
_GONE = _FORMER + "{}"

ROOT = (
    Setting("--log_target", HONOURED, "stdout, stderr and files; every line goes to each"),
    Setting("--log_as_json", HONOURED, "log JSON, one object a line", boolean=True),
    Setting("--log_output_level", HONOURED, "level, or list of scope:level"),
    Setting("--log_stacktrace_level", HONOURED, "from which level on lines have a stack"),
    Setting("--log_caller", HONOURED, "scopes whose lines say where they come from"),
    Setting("--log_rotate", HONOURED, "one more file, which is moved aside when it is large"),
    Setting("--log_rotate_max_age", HONOURED, "days that such files are kept"),
    Setting("--log_rotate_max_backups", HONOURED, "how many of them are kept"),
    Setting("--log_rotate_max_size", HONOURED, "bytes, above which it is moved aside"),
    Setting("--vklog", NO_EFFECT, "the agent has no Kubernetes client", silent=("0",)),
)

PROXY = (
    Setting("--domain", HONOURED, "DNS domain of the workload"),
    Setting("--meshConfig", HONOURED, "mesh config file"),
    Setting("--stsPort", HONOURED, "where tokens are exchanged; 0: nowhere"),
    Setting("--tokenManagerPlugin", HONOURED, "with --stsPort: the source of the tokens"),
    Setting("--serviceCluster", HONOURED, "name of Envoy's own service; the highest layer"),
    Setting("--proxyLogLevel", HONOURED, "Envoy's level, with `component:level` items if wanted"),
    Setting("--proxyComponentLogLevel", HONOURED, "levels of components, where those have none"),
    Setting("--concurrency", HONOURED, "Envoy's worker threads; the highest layer"),
    Setting(
        "--templateFile",
        HONOURED,
        "ProxyConfig's proxyBootstrapTemplatePath: a bootstrap of the user's own; no Go template",
    ),
    Setting("--outlierLogPath", HONOURED, "the file for outlier detection's events"),
    Setting(
        "--profiling",
        NO_EFFECT,
        "the status port serves no profiles",
        silent=("false",),
        boolean=True,
    ),
    Setting("--envoy-path", HONOURED, "ours: which Envoy to run"),
    Setting("--exit-with", HONOURED, "ours: the process that the agent ends with"),
)

FORMER = (
    Setting("--serviceregistry", NO_EFFECT, _GONE.format("registries are the control plane's")),
    Setting("--ip", NO_EFFECT, _FORMER + "set INSTANCE_IP instead"),
    Setting("--id", NO_EFFECT, _FORMER + "set POD_NAME and POD_NAMESPACE instead"),
    Setting("--trust-domain", NO_EFFECT, _FORMER + "set TRUST_DOMAIN instead"),
    Setting("--pilotIdentity", NO_EFFECT, _FORMER + "set ISTIOD_SAN instead"),
    Setting("--mixerIdentity", NO_EFFECT, _GONE.format("there is no Mixer")),
    Setting("--statusPort", NO_EFFECT, _FIELD.format("statusPort")),
    Setting("--applicationPorts", NO_EFFECT, _GONE.format("readiness does not ask for ports")),
    Setting("--configPath", NO_EFFECT, _FIELD.format("configPath")),
    Setting("--binaryPath", NO_EFFECT, _FIELD.format("binaryPath")),
    Setting("--drainDuration", NO_EFFECT, _FIELD.format("drainDuration")),
    Setting("--parentShutdownDuration", NO_EFFECT, _FIELD.format("parentShutdownDuration")),
    Setting("--discoveryAddress", NO_EFFECT, _FIELD.format("discoveryAddress")),
    Setting("--zipkinAddress", NO_EFFECT, _FIELD.format("tracing.zipkin.address")),
    Setting("--lightstepAddress", NO_EFFECT, _FIELD.format("tracing")),
    Setting("--lightstepAccessToken", NO_EFFECT, _FIELD.format("tracing")),
    Setting("--lightstepSecure", NO_EFFECT, _FIELD.format("tracing"), boolean=True),
    Setting("--lightstepCacertPath", NO_EFFECT, _FIELD.format("tracing")),
    Setting("--datadogAgentAddress", NO_EFFECT, _FIELD.format("tracing.datadog.address")),
    Setting("--connectTimeout", NO_EFFECT, _GONE.format("the control plane sets timeouts")),
    Setting("--statsdUdpAddress", NO_EFFECT, _FIELD.format("statsdUdpAddress")),
    Setting("--envoyMetricsService", NO_EFFECT, _FIELD.format("envoyMetricsService")),
    Setting("--envoyAccessLogService", NO_EFFECT, _FIELD.format("envoyAccessLogService")),
    Setting("--proxyAdminPort", NO_EFFECT, _FIELD.format("proxyAdminPort")),
    Setting("--controlPlaneAuthPolicy", NO_EFFECT, _FIELD.format("controlPlaneAuthPolicy")),
    Setting("--customConfigFile", NO_EFFECT, _FIELD.format("customConfigFile")),
    Setting("--dnsRefreshRate", NO_EFFECT, _GONE.format("the control plane sets it")),
    Setting(
        "--disableInternalTelemetry",
        NO_EFFECT,
        _GONE.format("the control plane configures telemetry"),
        boolean=True,
    ),
    Setting(
        "--controlPlaneBootstrap",
        NO_EFFECT,
        _GONE.format("the control plane is another program"),
        boolean=True,
    ),
)

FLAGS = (*ROOT, *PROXY, *FORMER)
