"""Flags and variables of Istio's control plane: honoured, without effect or refused; none else."""

import asyncio
import json
import ssl
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest
import typer.main
from cryptography import x509
from envoy.service.discovery.v3 import discovery_pb2

from mesh_discovery._config import Flags, SettingsError, read_config
from mesh_discovery.commands._cli import app
from mesh_discovery.settings._connections import STREAM_SETTINGS, StreamSettings
from mesh_discovery.settings._flags import FLAGS, HONOURED_FLAGS
from mesh_discovery.settings._variables import VARIABLES
from mesh_protos import CREATE_CERTIFICATE, type_urls
from planes import Plane, eventually, run_command, start
from xds_server.testing import SotwClient, over_grpc

Start = Callable[..., Awaitable[Plane]]

GIVEN = Flags(
    config_dir=Path("mesh"),
    mesh_config=None,
    ca_dir=None,
    jwks_file=None,
    jwks_url="",
    jwt_issuer="",
    jwt_audiences=("istio-ca",),
    http_addr="",
    grpc_addr="",
    secure_grpc_addr=":15012",
    monitoring_addr="",
    domain="cluster.local",
    shutdown_duration="10s",
)
# As `pilot-discovery discovery --help` of today lists them.
ISTIOS_FLAGS = frozenset(
    [
        "registries",
        "clusterRegistriesNamespace",
        "kubeconfig",
        "meshConfig",
        "networksConfig",
        "namespace",
        "cniNamespace",
        "shutdownDuration",
        "configDir",
        "domain",
        "clusterID",
        "clusterAliases",
        "httpAddr",
        "httpsAddr",
        "grpcAddr",
        "secureGRPCAddr",
        "monitoringAddr",
        "profile",
        "caCertFile",
        "tlsCertFile",
        "tlsKeyFile",
        "tls-cipher-suites",
        "tls-min-version",
        "kubernetesApiQPS",
        "kubernetesApiBurst",
        "log_target",
        "log_as_json",
        "log_output_level",
        "log_stacktrace_level",
        "log_caller",
        "ctrlz_port",
        "ctrlz_address",
        "keepaliveInterval",
        "keepaliveTimeout",
        "keepaliveMaxServerConnectionAge",
    ]
)
# The environment of the container in the chart istio-discovery, and what its values often add.
CHARTS_VARIABLES = {
    "REVISION": "default",
    "PILOT_CERT_PROVIDER": "istiod",
    "POD_NAME": "istiod-6f4b9-x7x2q",
    "POD_NAMESPACE": "istio-system",
    "SERVICE_ACCOUNT": "istiod",
    "KUBECONFIG": "/var/run/secrets/remote/config",
    "CA_TRUSTED_NODE_ACCOUNTS": "istio-system/ztunnel",
    "PILOT_TRACE_SAMPLING": "1",
    "PILOT_ENABLE_ANALYSIS": "false",
    "CLUSTER_ID": "Kubernetes",
    "GOMAXPROCS": "1",
    "PLATFORM": "",
}
CHARTS_WORDS = (
    "discovery",
    "--monitoringAddr=:15014",
    "--log_output_level=default:info",
    "--domain",
    "cluster.local",
    "--keepaliveMaxServerConnectionAge",
    "30m",
)


def test_every_flag_of_istios_control_plane_is_in_the_table() -> None:
    assert {f"--{name}" for name in ISTIOS_FLAGS} <= {each.name for each in FLAGS}


def test_every_flag_that_is_honoured_is_one_of_the_command() -> None:
    command = typer.main.get_command(app).commands["discovery"]  # type: ignore[attr-defined]
    own = {spelling for each in command.params for spelling in each.opts}
    assert {each.name for each in HONOURED_FLAGS} <= own


def test_no_setting_is_in_a_table_twice() -> None:
    for table in (FLAGS, VARIABLES):
        names = [each.name for each in table]
        assert sorted(set(names)) == sorted(names)


@pytest.mark.slow
async def test_the_command_line_of_istios_chart_starts_a_control_plane(tmp_path: Path) -> None:
    """In a network of its own, as a pod's, where its ports are free."""
    process = await start(
        *("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"),
        *(sys.executable, "-m", "mesh_discovery", *CHARTS_WORDS),
        cwd=tmp_path,
        env={**CHARTS_VARIABLES, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    pid = process.process.pid

    async def ready() -> bool:
        assert process.process.returncode is None, process.text
        return "control plane ready" in process.text

    try:
        await eventually(ready, what="control plane")
        answers = []
        for page in ("8080/ready", "15014/version", "15014/debug/syncz"):
            asked = await asyncio.create_subprocess_exec(
                *("nsenter", "--net", f"--target={pid}", sys.executable, "-c"),
                "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).status)",
                f"http://127.0.0.1:{page}",
                stdout=asyncio.subprocess.PIPE,
            )
            answers.append((await asked.communicate())[0].decode().strip())
    finally:
        code = await process.stop()

    assert answers == ["200", "200", "200"]
    assert code == 0
    warnings = [line for line in process.output if "\twarning\t" in line]
    assert not [line for line in warnings if "a setting has no effect" in line]
    assert [line for line in warnings if "there are no objects to serve" in line]


@pytest.mark.slow
async def test_settings_without_effect_are_logged_and_usual_values_are_not(
    config_dir: Path, start_plane: Start
) -> None:
    plane = await start_plane(
        config_dir,
        "--kubernetesApiQPS=80",
        "--kubernetesApiBurst",
        "500",
        "--profile=false",
        "--registries=Kubernetes",
        "--resync=60s",
        "--log_as_json=true",
        PILOT_XDS_CACHE_SIZE="1",
        PILOT_ENABLE_XDS_CACHE="true",
        PILOT_DEBOUNCE_AFTR="1s",
        GOMAXPROCS="2",
    )

    lines = [json.loads(line) for line in plane.process.output if line.startswith("{")]
    logged = {each["setting"]: each for each in lines if each["msg"] == "a setting has no effect"}
    assert set(logged) == {
        "--kubernetesApiBurst",
        "--registries",
        "--resync",
        "PILOT_XDS_CACHE_SIZE",
        "PILOT_DEBOUNCE_AFTR",
        "GOMAXPROCS",
    }
    assert logged["GOMAXPROCS"]["level"] == "info"
    assert logged["--resync"]["level"] == "warning"
    assert "did you mean PILOT_DEBOUNCE_AFTER?" in logged["PILOT_DEBOUNCE_AFTR"]["reason"]


@pytest.mark.parametrize(
    ("flags", "environ", "sentence"),
    [
        ((("--tlsCertFile", "/a.pem"),), {}, "--tlsCertFile: '/a.pem' would have"),
        ((), {"XDS_AUTH": "false"}, "XDS_AUTH: 'false' would believe callers without proof"),
        ((), {"PILOT_ENABLE_XDS_IDENTITY_CHECK": "false"}, "configuration of others"),
        ((), {"ENABLE_DEBUG_ENDPOINT_AUTH": "0"}, "of all namespaces to every workload"),
        ((), {"JWKS_RESOLVER_INSECURE_SKIP_VERIFY": "true"}, "from any server that answers"),
        ((), {"PILOT_SKIP_VALIDATE_TRUST_DOMAIN": "true"}, "trustDomainAliases"),
        ((), {"ISTIO_WORKLOAD_ENTRY_VALIDATE_IDENTITY": "false"}, "register as another"),
        ((), {"PILOT_CERT_PROVIDER": "kubernetes"}, "set istiod, or unset it"),
        ((), {"EXTERNAL_CA": "ISTIOD_RA_KUBERNETES_API"}, "signed elsewhere"),
        ((), {"COMPLIANCE_POLICY": "fips-140-3"}, "validated modules"),
    ],
)
def test_what_would_be_unsafe_to_pass_over_is_refused(
    flags: tuple[tuple[str, str], ...], environ: dict[str, str], sentence: str
) -> None:
    given = replace(GIVEN, passed=flags)
    with pytest.raises(SettingsError) as refused:
        read_config(given, environ)
    (problem,) = refused.value.problems
    assert sentence in problem


async def test_a_flag_that_no_release_has_had_is_an_error(tmp_path: Path) -> None:
    code, output = await run_command(tmp_path, "discovery", "--kubernetesApiQSP=3")
    assert code == 2
    assert "No such option: --kubernetesApiQSP" in output


def test_streams_go_by_istios_variables_and_flags() -> None:
    assert read_config(GIVEN, {}).streams == STREAM_SETTINGS
    environ = {
        "PILOT_PUSH_THROTTLE": "7",
        "PILOT_MAX_REQUESTS_PER_SECOND": "2.5",
        "PILOT_XDS_SEND_TIMEOUT": "0s",
        "ISTIO_GPRC_MAXSTREAMS": "12",
        "ISTIO_GPRC_MAXRECVMSGSIZE": "8388608",
        "GRPC_KEEPALIVE_INTERVAL": "20s",
        "GRPC_KEEPALIVE_TIMEOUT": "4s",
    }
    given = replace(GIVEN, keepalive_timeout="3s", max_connection_age="30m")
    assert read_config(given, environ).streams == StreamSettings(
        concurrent_pushes=7,
        streams_per_second=2.5,
        send_timeout_s=None,
        max_streams=12,
        max_request_bytes=8 << 20,
        keepalive_interval_s=20.0,
        keepalive_timeout_s=3.0,
        max_connection_age_s=1800.0,
    )


def test_zero_asks_for_the_usual_and_go_s_longest_time_for_none() -> None:
    given = replace(GIVEN, max_connection_age="2562047h47m16.854775807s")
    environ = {"PILOT_PUSH_THROTTLE": "0", "PILOT_MAX_REQUESTS_PER_SECOND": "0.0"}
    assert read_config(given, environ).streams == STREAM_SETTINGS


@pytest.mark.parametrize(
    "environ",
    [
        {"PILOT_PUSH_THROTTLE": "-1"},
        {"PILOT_MAX_REQUESTS_PER_SECOND": "many"},
        {"PILOT_MAX_REQUESTS_PER_SECOND": "nan"},
        {"ISTIO_GPRC_MAXRECVMSGSIZE": "1"},
        {"GRPC_KEEPALIVE_INTERVAL": "0s"},
        {"ISTIOD_CUSTOM_HOST": "Not A Host"},
        {"ENABLE_CA_SERVER": "perhaps"},
    ],
)
def test_a_value_that_cannot_be_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as refused:
        read_config(GIVEN, environ)
    (problem,) = refused.value.problems
    assert problem.startswith(next(iter(environ)))


def test_files_are_where_istio_has_them_unless_a_flag_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bare = replace(GIVEN, config_dir=None)
    assert read_config(bare, {}).config_dir is None
    usual = Path("etc/istio/config")
    usual.mkdir(parents=True)
    (usual / "mesh").write_text("rootNamespace: istio-config\n")

    config = read_config(bare, {})

    assert (config.config_dir, config.mesh_config) == (usual, usual / "mesh")
    assert config.mesh_networks is None
    named = replace(GIVEN, mesh_config=Path("mine"))
    assert read_config(named, {}).mesh_config == Path("mine")


async def test_mesh_config_without_a_directory_is_refused(tmp_path: Path) -> None:
    code, output = await run_command(tmp_path, "discovery", "--meshConfig=mesh.yaml")
    assert code == 2
    assert "--mesh-config or --mesh-networks is given without --config-dir" in output


@pytest.mark.slow
async def test_a_connection_of_that_age_is_asked_to_come_anew(
    config_dir: Path, start_plane: Start
) -> None:
    plane = await start_plane(config_dir, "--keepaliveMaxServerConnectionAge=1s")
    async with grpc.aio.insecure_channel(plane.grpc) as channel:
        await channel.channel_ready()
        async with asyncio.timeout(30):
            await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)


@pytest.mark.slow
async def test_the_secure_port_speaks_what_flags_and_variables_say(
    config_dir: Path, start_plane: Start
) -> None:
    plane = await start_plane(
        config_dir,
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,"
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256",
        "--namespace=control",
        ISTIOD_CUSTOM_HOST="mesh.example.com, other.example.com",
    )
    root = plane.ca_dir / "root-cert.pem"

    names, suite = await handshake(plane.secure_grpc, root, newest=ssl.TLSVersion.TLSv1_2)

    assert suite in ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384")
    assert names >= {"mesh.example.com", "other.example.com", "istiod.control.svc"}
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await handshake(
            plane.secure_grpc, root, newest=ssl.TLSVersion.TLSv1_2, ciphers="ECDHE+AES128"
        )


@pytest.mark.slow
async def test_an_older_tls_than_the_flag_says_is_not_spoken(
    config_dir: Path, start_plane: Start
) -> None:
    plane = await start_plane(config_dir, "--tls-min-version=1.3")
    root = plane.ca_dir / "root-cert.pem"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await handshake(plane.secure_grpc, root, newest=ssl.TLSVersion.TLSv1_2)
    await handshake(plane.secure_grpc, root, newest=ssl.TLSVersion.TLSv1_3)


async def handshake(
    address: str, root: Path, *, newest: ssl.TLSVersion, ciphers: str = ""
) -> tuple[set[str], str]:
    """Return the names on the server's certificate and the suite of the connection."""
    context = ssl.create_default_context(cafile=str(root))
    context.maximum_version = newest
    if ciphers:
        context.set_ciphers(ciphers)
    host, _, port = address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    tls = writer.get_extra_info("ssl_object")
    der, (suite, *_) = tls.getpeercert(binary_form=True), tls.cipher()
    writer.transport.abort()
    found = x509.load_der_x509_certificate(der).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return set(found.value.get_values_for_type(x509.DNSName)), suite


@pytest.mark.slow
async def test_an_authority_that_is_switched_off_signs_nothing(
    config_dir: Path, start_plane: Start
) -> None:
    plane = await start_plane(config_dir, ENABLE_CA_SERVER="false")
    async with grpc.aio.insecure_channel(plane.grpc) as channel:
        sign = channel.unary_unary(CREATE_CERTIFICATE, None, None)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await sign(b"")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.slow
async def test_responses_name_the_pod_that_they_are_from(
    config_dir: Path, start_plane: Start
) -> None:
    plane = await start_plane(config_dir, POD_NAME="istiod-7")
    node = "sidecar~127.0.0.9~web.default~default.svc.cluster.local"
    async with over_grpc(plane.grpc) as wire:
        client = SotwClient(wire, node_id=node, metadata={"INTERCEPTION_MODE": "NONE"})
        await client.subscribe(type_urls.CLUSTER)
        reply = await client.receive()
    response = discovery_pb2.DiscoveryResponse.FromString(reply.data)
    assert json.loads(response.control_plane.identifier)["ID"] == "istiod-7"
