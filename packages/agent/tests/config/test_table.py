"""Each flag and variable of Istio's agents is honoured, without effect or refused; none is left."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
import typer
from msgspec import structs

from istio_settings import Setting
from mesh_agent import AgentConfig, ConfigError, Flags
from mesh_agent._command import CommandWithFlags, with_flags
from mesh_agent.config.table._fields import WITHOUT_EFFECT
from mesh_agent.config.table._flags import FLAGS
from mesh_agent.config.table._variables import OUR_OWN, SURROUNDINGS, VARIABLES

Load = Callable[..., AgentConfig]

# The variables of release 1.11 and of today, as their documentation lists them.
ISTIOS_VARIABLES = frozenset(
    [
        "INSTANCE_IP",
        "HOST_IP",
        "POD_NAME",
        "POD_NAMESPACE",
        "SERVICE_ACCOUNT",
        "TRUST_DOMAIN",
        "PROXY_CONFIG",
        "ISTIO_META_*",
        "ISTIO_METAJSON_*",
        "ISTIO_META_CLUSTER_ID",
        "ISTIO_KUBE_APP_PROBERS",
        "ISTIO_PROMETHEUS_ANNOTATIONS",
        "ISTIO_CPU_LIMIT",
        "CLOUD_PLATFORM",
        "GCP_METADATA",
        "GCP_ZONE",
        "GCP_QUOTA_PROJECT",
        "GKE_CLUSTER_URL",
        "ISTIO_DUAL_STACK",
        "CA_PROVIDER",
        "CA_ADDR",
        "ISTIOD_SAN",
        "PILOT_CERT_PROVIDER",
        "JWT_POLICY",
        "XDS_ROOT_CA",
        "CA_ROOT_CA",
        "PROV_CERT",
        "OUTPUT_CERTS",
        "FILE_MOUNTED_CERTS",
        "SECRET_TTL",
        "SECRET_GRACE_PERIOD_RATIO",
        "SECRET_GRACE_PERIOD_RATIO_JITTER",
        "FILE_DEBOUNCE_DURATION",
        "WORKLOAD_RSA_KEY_SIZE",
        "PKCS8_KEY",
        "ECC_SIGNATURE_ALGORITHM",
        "ECC_CURVE",
        "CREDENTIAL_FETCHER_TYPE",
        "CREDENTIAL_IDENTITY_PROVIDER",
        "XDS_AUTH_PROVIDER",
        "TOKEN_AUDIENCES",
        "XDS_AUTH_PLAINTEXT",
        "REQUIRE_3P_TOKEN",
        "HTTP_STRIP_FRAGMENT_FROM_PATH_UNSAFE_IF_DISABLED",
        "ISTIO_META_CERT_SIGNER",
        "WORKLOAD_IDENTITY_SOCKET_FILE",
        "PILOT_ENABLE_CA_CRL",
        "COMPLIANCE_POLICY",
        "CA_HEADER_*",
        "XDS_HEADER_*",
        "KUBERNETES_SERVICE_HOST",
        "PROXY_XDS_VIA_AGENT",
        "PROXY_XDS_DEBUG_VIA_AGENT",
        "PROXY_XDS_DEBUG_VIA_AGENT_PORT",
        "ISTIO_DELTA_XDS",
        "PROXY_CONFIG_XDS_AGENT",
        "BOOTSTRAP_XDS_AGENT",
        "ISTIO_META_DNS_CAPTURE",
        "ISTIO_META_DNS_AUTO_ALLOCATE",
        "ISTIO_META_ENABLE_DNS_SERVER",
        "DNS_PROXY_ADDR",
        "DNS_FORWARD_PARALLEL",
        "DNS_FORWARD_TIMEOUT",
        "GRPC_XDS_BOOTSTRAP",
        "DISABLE_ENVOY",
        "GRPC_KEEPALIVE_INTERVAL",
        "GRPC_KEEPALIVE_TIMEOUT",
        "ISTIO_GPRC_MAXSTREAMS",
        "ISTIO_GPRC_MAXRECVMSGSIZE",
        "PILOT_XDS_SEND_TIMEOUT",
        "WASM_INSECURE_REGISTRIES",
        "WASM_MODULE_EXPIRY",
        "WASM_PURGE_INTERVAL",
        "WASM_HTTP_REQUEST_TIMEOUT",
        "WASM_HTTP_REQUEST_MAX_RETRIES",
        "ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION",
        "ISTIO_WASM_MAX_BINARY_SIZE_BYTES",
        "BLOCKED_CIDRS_IN_WASM_FETCH",
        "PEER_METADATA_DISCOVERY",
        "ENVOY_STATUS_PORT",
        "ENVOY_PROMETHEUS_PORT",
        "ENVOY_SECURE_METRICS_PORT",
        "ENVOY_SECURE_MERGED_METRICS_PORT",
        "ENVOY_STATUS_PORT_ENABLE_PROXY_PROTOCOL",
        "METRICS_LOCALHOST_ACCESS_ONLY",
        "PILOT_AGENT_MERGE_ENVOY_STATS",
        "MINIMUM_DRAIN_DURATION",
        "EXIT_ON_ZERO_ACTIVE_CONNECTIONS",
        "ENVOY_SKIP_DEPRECATED_LOGS",
        "ISTIO_BOOTSTRAP",
        "ISTIO_BOOTSTRAP_OVERRIDE",
        "ISTIO_ENVOY_ENABLE_CORE_DUMP",
        "REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION",
        "ENABLE_PROBE_KEEPALIVE_CONNECTIONS",
        "ISTIO_ENABLE_HTTP2_PROBING",
        "ENVOY_USER",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ]
)
# The flags of releases 1.4, 1.11 and of today.
ISTIOS_FLAGS = frozenset(
    [
        "--log_target",
        "--log_as_json",
        "--log_output_level",
        "--log_stacktrace_level",
        "--log_caller",
        "--log_rotate",
        "--log_rotate_max_age",
        "--log_rotate_max_backups",
        "--log_rotate_max_size",
        "--vklog",
        "--domain",
        "--meshConfig",
        "--stsPort",
        "--tokenManagerPlugin",
        "--serviceCluster",
        "--proxyLogLevel",
        "--proxyComponentLogLevel",
        "--concurrency",
        "--templateFile",
        "--outlierLogPath",
        "--profiling",
        "--serviceregistry",
        "--ip",
        "--id",
        "--trust-domain",
        "--pilotIdentity",
        "--mixerIdentity",
        "--statusPort",
        "--applicationPorts",
        "--configPath",
        "--binaryPath",
        "--drainDuration",
        "--parentShutdownDuration",
        "--discoveryAddress",
        "--zipkinAddress",
        "--lightstepAddress",
        "--lightstepAccessToken",
        "--lightstepSecure",
        "--lightstepCacertPath",
        "--datadogAgentAddress",
        "--connectTimeout",
        "--statsdUdpAddress",
        "--envoyMetricsService",
        "--envoyAccessLogService",
        "--proxyAdminPort",
        "--controlPlaneAuthPolicy",
        "--customConfigFile",
        "--dnsRefreshRate",
        "--disableInternalTelemetry",
        "--controlPlaneBootstrap",
    ]
)


class Example(NamedTuple):
    """A value that shows, beside other settings that it needs to show."""

    value: str
    others: Mapping[str, str] = MappingProxyType({})
    flags: Mapping[str, object] = MappingProxyType({})


_PROBERS = '{"/app-health/web/livez": {"httpGet": {"path": "/", "port": 8080, "scheme": "HTTPS"}}}'
_DNS = {"ISTIO_META_DNS_CAPTURE": "true"}
_IDLE = {"EXIT_ON_ZERO_ACTIVE_CONNECTIONS": "true"}
_ECDSA = {"ECC_SIGNATURE_ALGORITHM": "ECDSA"}
_OUTPUT = {"OUTPUT_CERTS": "out"}
_STS = {
    "MESH_AGENT_STS_URL": "https://authority/token",
    "MESH_AGENT_STS_CLIENT_ID": "web",
    "MESH_AGENT_STS_CLIENT_SECRET_FILE": "secret",
}
_STS_PORT = {"sts_port": 15463}
EXAMPLES = {
    "PROXY_XDS_DEBUG_VIA_AGENT": Example("false"),
    "PROXY_XDS_DEBUG_VIA_AGENT_PORT": Example("15999"),
    "INSTANCE_IP": Example("127.0.9.2"),
    "HOST_IP": Example("192.0.2.9"),
    "POD_NAME": Example("other"),
    "POD_NAMESPACE": Example("other"),
    "SERVICE_ACCOUNT": Example("other"),
    "TRUST_DOMAIN": Example("other.example"),
    "PROXY_CONFIG": Example('{"statusPort": 15999}'),
    "ISTIO_META_*": Example("x"),
    "ISTIO_METAJSON_*": Example('{"X": 1}'),
    "ISTIO_META_CLUSTER_ID": Example("east"),
    "ISTIO_CPU_LIMIT": Example("3"),
    "CLOUD_PLATFORM": Example("aws"),
    "GCP_METADATA": Example("project|1|cluster|europe-west1-b"),
    "GCP_ZONE": Example("europe-west1-b", {"CLOUD_PLATFORM": "gcp"}),
    "GKE_CLUSTER_URL": Example("https://c.example", {"CLOUD_PLATFORM": "gcp"}),
    "AWS_EC2_METADATA_DISABLED": Example("true", {"CLOUD_PLATFORM": "aws"}),
    "AWS_EC2_METADATA_SERVICE_ENDPOINT": Example("http://127.0.0.1:1", {"CLOUD_PLATFORM": "aws"}),
    "GCE_METADATA_HOST": Example("127.0.0.1:1", {"CLOUD_PLATFORM": "gcp"}),
    "ISTIO_DUAL_STACK": Example("true"),
    "ISTIO_KUBE_APP_PROBERS": Example(_PROBERS),
    "ISTIO_PROMETHEUS_ANNOTATIONS": Example('{"scrape": "true", "port": "8080"}'),
    "REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION": Example("true"),
    "ISTIO_ENABLE_HTTP2_PROBING": Example("false", {"ISTIO_KUBE_APP_PROBERS": _PROBERS}),
    "CA_ADDR": Example("ca.example:15012"),
    "ISTIOD_SAN": Example("cp.example"),
    "PILOT_CERT_PROVIDER": Example("custom"),
    "XDS_ROOT_CA": Example("SYSTEM"),
    "CA_ROOT_CA": Example("SYSTEM"),
    "PROV_CERT": Example("etc/certs"),
    "OUTPUT_CERTS": Example("out"),
    "FILE_MOUNTED_CERTS": Example("true"),
    "SECRET_TTL": Example("1h"),
    "SECRET_GRACE_PERIOD_RATIO": Example("0.3"),
    "SECRET_GRACE_PERIOD_RATIO_JITTER": Example("0.1"),
    "WORKLOAD_RSA_KEY_SIZE": Example("3072"),
    "PKCS8_KEY": Example("true"),
    "ECC_SIGNATURE_ALGORITHM": Example("ECDSA", {"WORKLOAD_RSA_KEY_SIZE": "2048"}),
    "ECC_CURVE": Example("P384", _ECDSA),
    "ISTIO_META_CERT_SIGNER": Example("signer"),
    "WORKLOAD_IDENTITY_SOCKET_FILE": Example("other"),
    "PILOT_ENABLE_CA_CRL": Example("false"),
    "CA_HEADER_*": Example("x"),
    "XDS_HEADER_*": Example("x"),
    "KUBERNETES_SERVICE_HOST": Example("10.0.0.1", _OUTPUT),
    "ISTIO_DELTA_XDS": Example("false"),
    "PROXY_CONFIG_XDS_AGENT": Example("false"),
    "ISTIO_META_DNS_CAPTURE": Example("true"),
    "ISTIO_META_DNS_AUTO_ALLOCATE": Example("true"),
    "ISTIO_META_ENABLE_DNS_SERVER": Example("true", flags={"role": "router"}),
    "DNS_PROXY_ADDR": Example("localhost:15999", _DNS),
    "DNS_FORWARD_PARALLEL": Example("true", _DNS),
    "DNS_FORWARD_TIMEOUT": Example("2s", _DNS),
    "GRPC_XDS_BOOTSTRAP": Example("b.json", {"DISABLE_ENVOY": "true"}),
    "DISABLE_ENVOY": Example("true"),
    "PILOT_XDS_SEND_TIMEOUT": Example("5s"),
    "WASM_INSECURE_REGISTRIES": Example("localhost:5000"),
    "WASM_MODULE_EXPIRY": Example("2h"),
    "WASM_PURGE_INTERVAL": Example("10m"),
    "WASM_HTTP_REQUEST_TIMEOUT": Example("1s"),
    "WASM_HTTP_REQUEST_MAX_RETRIES": Example("2"),
    "ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION": Example("false"),
    "ISTIO_WASM_MAX_BINARY_SIZE_BYTES": Example("1000000"),
    "BLOCKED_CIDRS_IN_WASM_FETCH": Example("10.0.0.0/8,fc00::/7"),
    "PEER_METADATA_DISCOVERY": Example("true"),
    "ENVOY_STATUS_PORT": Example("15998"),
    "ENVOY_PROMETHEUS_PORT": Example("15998"),
    "ENVOY_SECURE_METRICS_PORT": Example("15998"),
    "ENVOY_SECURE_MERGED_METRICS_PORT": Example("15998"),
    "ENVOY_STATUS_PORT_ENABLE_PROXY_PROTOCOL": Example("true"),
    "METRICS_LOCALHOST_ACCESS_ONLY": Example("true"),
    "PILOT_AGENT_MERGE_ENVOY_STATS": Example("false"),
    "MINIMUM_DRAIN_DURATION": Example("9s", _IDLE),
    "EXIT_ON_ZERO_ACTIVE_CONNECTIONS": Example("true"),
    "ENVOY_SKIP_DEPRECATED_LOGS": Example("true"),
    "ISTIO_BOOTSTRAP": Example("own.json"),
    "ISTIO_BOOTSTRAP_OVERRIDE": Example("own.json"),
    "ISTIO_ENVOY_ENABLE_CORE_DUMP": Example("true"),
    "ENVOY_PATH": Example("other-envoy", flags={"envoy_path": ""}),
    "MESH_AGENT_APPLICATION_STOP_TIMEOUT": Example("7s", flags={"command": ("/bin/true",)}),
    "MESH_AGENT_BIND_ADDRESS": Example("127.0.9.9"),
    "MESH_AGENT_ENVOY_MAX_HEAP": Example("200Mi"),
    "MESH_AGENT_FURTHER_CONTROL_PLANES": Example("b.example:15012"),
    "MESH_AGENT_XDS_ON_DISCONNECT": Example("end"),
    "MESH_AGENT_GRPC_REFRESH_INTERVAL": Example("5s"),
    "MESH_AGENT_ADAPT_TO_ENVOY": Example("false"),
    "MESH_AGENT_HOT_RESTART": Example("false"),
    "MESH_AGENT_EXIT_WITH": Example("job"),
    "MESH_AGENT_QUARANTINE": Example("false"),
    "MESH_AGENT_READY_WITHOUT_LISTENERS": Example("true", flags={"role": "router"}),
    "MESH_AGENT_RESTART_ENVOY": Example("false"),
    "MESH_AGENT_SAVE_CERTIFICATE": Example("false"),
    "MESH_AGENT_SAVE_CONFIGURATION": Example("false"),
    "MESH_AGENT_SAVED_MAX_AGE": Example("1h"),
    "MESH_AGENT_SAVED_MAX_BYTES": Example("1000"),
    "MESH_AGENT_STALE_START_AFTER": Example("1s"),
    "MESH_AGENT_STATE_DIRECTORY": Example("state"),
    "MESH_AGENT_STATUS_CONNECTIONS": Example("1024"),
    "MESH_AGENT_STATUS_CONNECTIONS_PER_PEER": Example("7"),
    "MESH_AGENT_STS_URL": Example("https://other/token", _STS, _STS_PORT),
    **{
        f"MESH_AGENT_STS_{name}": Example("x", _STS, _STS_PORT)
        for name in ("AUDIENCE", "RESOURCE", "SCOPE", "CLIENT_ID", "CLIENT_SECRET_FILE")
    },
    "MESH_AGENT_STS_ROOT_FILE": Example("x", _STS, _STS_PORT),
    "MESH_AGENT_WASM_CACHE": Example("other"),
}
# Read by mesh-identity when roots are looked up, not by the agent's configuration.
READ_ELSEWHERE = {"SSL_CERT_FILE", "SSL_CERT_DIR"}


def variable(setting: Setting) -> str:
    return setting.name.replace("*", "X")


def of_fate(fate: str, rows: tuple[Setting, ...] = VARIABLES) -> list[Setting]:
    return [each for each in rows if each.fate == fate]


def names(rows: list[Setting]) -> list[str]:
    return [each.name for each in rows]


def without_effect(config: AgentConfig) -> dict[str, str]:
    return {each.setting: each.reason for each in config.effective.without_effect}


@pytest.fixture
def furnished(workload: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workload's directory with everything that an example names."""
    monkeypatch.chdir(workload)
    for name in ("etc/certs/root-cert.pem", "etc/certs/cert-chain.pem"):
        (workload / name).parent.mkdir(parents=True, exist_ok=True)
        (workload / name).write_text("x")
    (workload / "var/run/secrets/istio/crl").mkdir()
    (workload / "own.json").write_text('{"admin": {"address": {}}}')
    for name in ("envoy", "other-envoy"):
        (workload / name).write_text("#!/bin/sh\necho --skip-deprecated-logs --enable-core-dump\n")
        (workload / name).chmod(0o755)
    return workload


def test_the_table_has_every_variable_of_istios_agents() -> None:
    listed = {each.name for each in VARIABLES}
    assert not ISTIOS_VARIABLES - listed
    assert listed - ISTIOS_VARIABLES == {each.name for each in (*SURROUNDINGS, *OUR_OWN)}
    assert len(listed) == len(VARIABLES)


def test_the_table_has_every_flag_of_istios_agents() -> None:
    listed = {each.name for each in FLAGS}
    assert not ISTIOS_FLAGS - listed
    assert listed - ISTIOS_FLAGS == {"--envoy-path", "--exit-with"}


def test_each_honoured_variable_has_an_example() -> None:
    assert {each.name for each in of_fate("honoured")} == EXAMPLES.keys() | READ_ELSEWHERE


@pytest.mark.usefixtures("furnished")
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_variable_that_is_honoured_changes_the_configuration(load: Load, name: str) -> None:
    example = EXAMPLES[name]
    before = load(example.others, **example.flags)
    after = load({**example.others, name.replace("*", "X"): example.value}, **example.flags)
    assert structs.replace(after, effective=before.effective) != before
    assert name not in without_effect(after)


@pytest.mark.parametrize("setting", of_fate("without effect"), ids=names(of_fate("without effect")))
def test_a_variable_without_effect_is_reported_and_changes_nothing(
    load: Load, setting: Setting
) -> None:
    config = load({setting.name: "something"})
    assert without_effect(config)[setting.name] == setting.why
    base = load()
    assert structs.replace(config, effective=base.effective) == base
    for value in setting.silent:
        assert setting.name not in without_effect(load({setting.name: value})), value


@pytest.mark.parametrize("setting", of_fate("refused"), ids=names(of_fate("refused")))
def test_a_variable_that_is_refused_says_why(load: Load, setting: Setting) -> None:
    for value in ("something", *setting.by_value):
        with pytest.raises(ConfigError) as caught:
            load({setting.name: value})
        (problem,) = caught.value.problems
        assert problem.startswith(f"{setting.name}: {value!r} ")
    for value in setting.silent:
        assert setting.name not in without_effect(load({setting.name: value})), value


def flags_of(*words: str) -> Flags:
    """Read a command line as `mesh-agent proxy` does."""
    seen: list[Flags] = []

    def keep(flags: Flags) -> None:
        seen.append(flags)

    app = typer.Typer()
    app.callback()(lambda: None)
    app.command("proxy", cls=CommandWithFlags)(with_flags(keep))
    app(["proxy", *words], standalone_mode=False)
    (flags,) = seen
    return flags


FLAG_VALUES = {
    "--concurrency": "3",
    "--log_rotate_max_age": "3",
    "--log_rotate_max_backups": "3",
    "--log_rotate_max_size": "3",
    "--stsPort": "15463",
}


@pytest.mark.parametrize("spelling", ["{0}={1}", "{0} {1}"])
@pytest.mark.parametrize("setting", FLAGS, ids=[each.name for each in FLAGS])
def test_every_flag_is_taken_and_those_without_effect_are_reported(
    load: Load, setting: Setting, spelling: str
) -> None:
    value = FLAG_VALUES.get(setting.name, "something")
    words = [setting.name] if setting.boolean else spelling.format(setting.name, value).split()
    flags = flags_of(*words, "router")
    assert flags.role == "router"
    plain = flags_of("router")
    if setting.fate == "honoured":
        assert structs.replace(flags, passed=()) != plain
        assert not flags.passed
        return
    assert structs.replace(flags, passed=()) == plain
    assert without_effect(load(passed=flags.passed))[setting.name] == setting.why
    for silent in setting.silent:
        quiet = flags_of(f"{setting.name}={silent}").passed
        assert setting.name not in without_effect(load(passed=quiet)), silent


@pytest.mark.parametrize("field", WITHOUT_EFFECT, ids=[each.name for each in WITHOUT_EFFECT])
def test_a_field_of_the_proxy_config_without_effect_is_reported(load: Load, field: Setting) -> None:
    values = {
        "caCertificatesPem": "[]",
        "fileFlushMinSizeKb": "7",
        "privateKeyProvider": "{}",
        "readinessProbe": "{}",
        "statNameLength": "300",
        "statsCompression": "true",
    }
    text = f'{{"{field.name}": {values.get(field.name, chr(34) + "x" + chr(34))}}}'
    assert without_effect(load({"PROXY_CONFIG": text}))[f"PROXY_CONFIG: {field.name}"] == field.why
    for silent in field.silent:
        quiet = load({"PROXY_CONFIG": f'{{"{field.name}": {silent}}}'})
        assert not without_effect(quiet)


def test_an_unknown_flag_takes_the_next_word_as_in_istio_and_is_reported(load: Load) -> None:
    flags = flags_of("sidecar", "--new", "value", "--newer=1", "--newest", "--domain", "x")
    assert (flags.role, flags.domain) == ("sidecar", "x")
    assert flags.passed == (("--new", "value"), ("--newer", "1"), ("--newest", ""))
    reason = without_effect(load(passed=(("--meshConf", "x"), ("--new", ""))))["--meshConf, --new"]
    assert reason == "the agent knows no such flag; did you mean --meshConfig?"


def test_unknown_variables_that_look_like_istios_or_ours_are_reported_together(load: Load) -> None:
    config = load(
        {
            "ISTIO_NEW": "1",
            "PILOT_ENABLE_X": "1",
            "MESH_AGENT_HOT_RESTARTS": "1",
            "OTHER": "1",
            "ISTIO_META_ANY": "1",
        }
    )
    assert without_effect(config) == {
        "ISTIO_NEW, MESH_AGENT_HOT_RESTARTS, PILOT_ENABLE_X": (
            "the agent knows no such variable; did you mean MESH_AGENT_HOT_RESTART?"
        )
    }


def test_the_variables_that_kubernetes_makes_for_services_are_not_unknown(load: Load) -> None:
    service = {
        "ISTIOD_SERVICE_HOST": "10.0.0.1",
        "ISTIOD_SERVICE_PORT": "15012",
        "ISTIOD_SERVICE_PORT_HTTPS_DNS": "15012",
        "ISTIOD_PORT": "tcp://10.0.0.1:15012",
        "ISTIOD_PORT_15012_TCP_ADDR": "10.0.0.1",
    }
    assert without_effect(load(service)) == {}
    assert without_effect(load({"ISTIOD_PORT": "x"})) != {}


@pytest.mark.parametrize("value", ["true", "TRUE", "1"])
def test_a_value_that_is_what_the_agent_does_is_silent_in_every_spelling(
    load: Load, value: str
) -> None:
    assert without_effect(load({"PROXY_XDS_VIA_AGENT": value})) == {}


def test_a_flag_that_is_on_or_off_takes_a_value_as_in_go() -> None:
    assert flags_of("--log_as_json=true").log_as_json
    assert not flags_of("--log_as_json=false").log_as_json
    with pytest.raises(typer.BadParameter, match="--log_as_json is 'x', it must be true or false"):
        flags_of("--log_as_json=x")
