"""The command lines and variables that Istio's installations start its agent with, unchanged."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

import envoy_supervisor
from istio_settings import ISTIO_VERSION
from mesh_agent import AgentConfig, Flags, load_config
from mesh_agent._command import CommandWithFlags, with_flags

PROXY_CONFIG_1_11 = {
    "discoveryAddress": "istiod.istio-system.svc:15012",
    "tracing": {"zipkin": {"address": "zipkin.istio-system:9411"}},
    "proxyMetadata": {"ISTIO_META_DNS_CAPTURE": "true"},
}
IDENTITY = {
    "POD_NAME": "web-5f7d8c9b4-x2x7k",
    "POD_NAMESPACE": "shop",
    "INSTANCE_IP": "192.0.2.15",
    "SERVICE_ACCOUNT": "web",
    "HOST_IP": "192.0.2.1",
}
METADATA = {
    "ISTIO_META_POD_PORTS": '[\n    {"containerPort":8080,"protocol":"TCP"}\n]',
    "ISTIO_META_APP_CONTAINERS": "web",
    "ISTIO_META_CLUSTER_ID": "Kubernetes",
    "ISTIO_META_INTERCEPTION_MODE": "REDIRECT",
    "ISTIO_META_WORKLOAD_NAME": "web",
    "ISTIO_META_OWNER": "kubernetes://apis/apps/v1/namespaces/shop/deployments/web",
    "ISTIO_META_MESH_ID": "cluster.local",
    "TRUST_DOMAIN": "cluster.local",
}
PROBERS = {
    "ISTIO_KUBE_APP_PROBERS": json.dumps(
        {"/app-health/web/readyz": {"httpGet": {"path": "/ready", "port": 8080}}}
    ),
    "ISTIO_PROMETHEUS_ANNOTATIONS": '{"scrape":"true","path":"/metrics","port":"8080"}',
}
KUBERNETES = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "PATH": "/usr/bin",
    "HOSTNAME": "web-5f7d8c9b4-x2x7k",
}
POD_1_11 = {
    **KUBERNETES,
    **IDENTITY,
    **METADATA,
    **PROBERS,
    "JWT_POLICY": "third-party-jwt",
    "PILOT_CERT_PROVIDER": "istiod",
    "CA_ADDR": "istiod.istio-system.svc:15012",
    "PROXY_CONFIG": json.dumps(PROXY_CONFIG_1_11) + "\n",
    "ISTIO_META_DNS_CAPTURE": "true",
}
WORDS_1_11 = (
    "proxy sidecar --domain shop.svc.cluster.local --proxyLogLevel=warning "
    "--proxyComponentLogLevel=misc:error --log_output_level=default:info --concurrency 2"
)
POD_TODAY = {
    **KUBERNETES,
    **IDENTITY,
    **METADATA,
    **PROBERS,
    "PILOT_CERT_PROVIDER": "istiod",
    "CA_ADDR": "istiod.istio-system.svc:15012",
    "ISTIO_CPU_LIMIT": "2",
    "GOMEMLIMIT": "1073741824",
    "PROXY_CONFIG": "{}\n",
    "ISTIO_META_NODE_NAME": "node-1",
}
WORDS_TODAY = (
    "proxy sidecar --domain shop.svc.cluster.local --proxyLogLevel=warning "
    "--proxyComponentLogLevel=misc:error --log_output_level=default:info"
)
# What `istioctl x workload entry configure` writes to cluster.env, and the start script adds.
MACHINE = {
    "CANONICAL_REVISION": "latest",
    "CANONICAL_SERVICE": "web",
    "ISTIO_INBOUND_PORTS": "*",
    "ISTIO_LOCAL_EXCLUDE_PORTS": "22,15090,15021,15020",
    "ISTIO_METAJSON_LABELS": '{"app":"web","service.istio.io/canonical-name":"web"}',
    "ISTIO_META_AUTO_REGISTER_GROUP": "web",
    "ISTIO_META_CLUSTER_ID": "Kubernetes",
    "ISTIO_META_DNS_CAPTURE": "true",
    "ISTIO_META_MESH_ID": "mesh1",
    "ISTIO_META_NETWORK": "",
    "ISTIO_META_WORKLOAD_NAME": "web",
    "ISTIO_NAMESPACE": "shop",
    "ISTIO_SERVICE": "web.shop",
    "ISTIO_SERVICE_CIDR": "*",
    "ISTIO_SVC_IP": "192.0.2.20",
    "POD_NAMESPACE": "shop",
    "SERVICE_ACCOUNT": "web",
    "TRUST_DOMAIN": "cluster.local",
    "INSTANCE_IP": "192.0.2.20",
    "POD_NAME": "vm-1",
    "PROV_CERT": "./etc/certs",
    "OUTPUT_CERTS": "./etc/certs",
}
MESH_OF_THE_MACHINE = """
defaultConfig:
  discoveryAddress: istiod.istio-system.svc:15012
  meshId: mesh1
  proxyMetadata:
    CANONICAL_REVISION: latest
    ISTIO_META_DNS_CAPTURE: "true"
  readinessProbe:
    httpGet: {port: 8080}
trustDomain: cluster.local
"""
PROXYLESS = {
    **KUBERNETES,
    **IDENTITY,
    **METADATA,
    "ISTIO_META_GENERATOR": "grpc",
    "OUTPUT_CERTS": "/var/lib/istio/data",
    "ISTIO_META_DNS_CAPTURE": "false",
    "DISABLE_ENVOY": "true",
    "CA_ADDR": "istiod.istio-system.svc:15012",
    "PILOT_CERT_PROVIDER": "istiod",
    "PROXY_CONFIG": "{}\n",
}

Start = Callable[[dict[str, str], str], AgentConfig]


@pytest.fixture
def start(workload: Path) -> Start:
    """Composes the configuration of a command line, as the command and the agent do."""
    pod = workload / "etc/istio/pod"
    pod.mkdir(parents=True)
    (pod / "labels").write_text('app="web"\npod-template-hash="5f7d8c9b4"\n')

    def with_words(environ: dict[str, str], words: str) -> AgentConfig:
        seen: list[Flags] = []

        def keep(flags: Flags) -> None:
            seen.append(flags)

        app = typer.Typer()
        app.callback()(lambda: None)
        app.command("proxy", cls=CommandWithFlags)(with_flags(keep))
        app(words.split(), standalone_mode=False)
        environ = {**environ, "ENVOY_PATH": str(workload / "envoy")}
        return load_config(seen[0], environ=environ, directory=workload, version="1.2.3")

    return with_words


def metadata(config: AgentConfig) -> dict[str, object]:
    assert isinstance(config.envoy.bootstrap, envoy_supervisor.BootstrapConfig)
    return dict(config.envoy.bootstrap.node_metadata)


def warnings(config: AgentConfig) -> list[str]:
    return [str(each) for each in config.effective.without_effect if not each.quiet]


def test_an_injected_pod_of_release_1_11(start: Start) -> None:
    config = start(POD_1_11, WORDS_1_11)
    assert warnings(config) == []
    assert config.envoy.concurrency == 2
    assert config.envoy.component_log_level == "misc:error"
    assert config.names is not None
    assert config.identity.node_id == (
        "sidecar~192.0.2.15~web-5f7d8c9b4-x2x7k.shop~shop.svc.cluster.local"
    )
    node = metadata(config)
    assert node["POD_PORTS"] == METADATA["ISTIO_META_POD_PORTS"]
    assert node["LABELS"] == {"app": "web"}
    assert node["PILOT_SAN"] == ["istiod.istio-system.svc"]
    assert node["ISTIO_VERSION"] == ISTIO_VERSION


def test_an_injected_pod_of_today(start: Start) -> None:
    config = start(POD_TODAY, WORDS_TODAY)
    assert warnings(config) == []
    assert [each.setting for each in config.effective.without_effect] == ["GOMEMLIMIT"]
    assert config.envoy.concurrency == 2, "the CPU limit"
    assert metadata(config)["NODE_NAME"] == "node-1"


def test_a_gateway_of_today(start: Start) -> None:
    words = (
        "proxy router --domain shop.svc.cluster.local --proxyLogLevel=warning "
        "--proxyComponentLogLevel=misc:error --log_output_level=default:info --log_as_json"
    )
    service = {
        "ISTIOD_SERVICE_HOST": "10.96.0.9",
        "ISTIOD_PORT_15012_TCP_ADDR": "10.96.0.9",
        "ISTIO_INGRESSGATEWAY_SERVICE_HOST": "10.96.0.8",
        "ISTIO_INGRESSGATEWAY_SERVICE_PORT_HTTP2": "80",
    }
    environ = {**POD_TODAY, **service, "ISTIO_META_UNPRIVILEGED_POD": "true"}
    del environ["ISTIO_PROMETHEUS_ANNOTATIONS"]
    assert warnings(start(environ, words)) == []


def test_an_injected_pod_of_release_1_4_is_warned_which_flags_it_need_not_give(
    start: Start,
) -> None:
    words = (
        "proxy sidecar --domain shop.svc.cluster.local --configPath /etc/istio/proxy "
        "--binaryPath /usr/local/bin/envoy --serviceCluster web.shop --drainDuration 45s "
        "--parentShutdownDuration 1m0s --discoveryAddress istio-pilot.istio-system:15011 "
        "--zipkinAddress zipkin.istio-system:9411 --proxyLogLevel=warning --dnsRefreshRate 300s "
        "--connectTimeout 10s --proxyAdminPort 15000 --concurrency 2 "
        "--controlPlaneAuthPolicy NONE --statusPort 15020 --applicationPorts 8080,8081"
    )
    config = start(POD_TODAY, words)
    assert config.relay.upstream.address == "istiod.istio-system.svc:15012"
    settings = {each.partition(" ")[0] for each in warnings(config)}
    assert "--discoveryAddress" in settings
    assert not settings & {"--domain", "--serviceCluster", "--concurrency"}
    assert len(settings) == 12


def test_a_virtual_machine(start: Start, workload: Path) -> None:
    certs = workload / "etc/certs"
    certs.mkdir()
    for name in ("cert-chain.pem", "key.pem", "root-cert.pem"):
        (certs / name).write_text("x")
    mesh = workload / "etc/istio/config/mesh"
    mesh.parent.mkdir(parents=True)
    mesh.write_text(MESH_OF_THE_MACHINE)
    config = start(MACHINE, "proxy")
    assert config.files is None, "its own output"
    assert config.names is not None
    node = metadata(config)
    assert node["AUTO_REGISTER_GROUP"] == "web"
    assert node["MESH_ID"] == "mesh1"
    assert node["PROV_CERT"] == "./etc/certs"
    assert all("readinessProbe" in each for each in warnings(config))


def test_the_proxyless_template(start: Start) -> None:
    config = start(PROXYLESS, "proxy sidecar --domain shop.svc.cluster.local")
    assert warnings(config) == []
    assert config.grpc_bootstrap is not None
    assert config.names is None
    assert metadata(config)["GENERATOR"] == "grpc"


@pytest.mark.parametrize("kind", ["waypoint", "ztunnel", "ingress"])
def test_proxy_types_that_this_agent_is_not_are_refused_with_a_reason(
    start: Start, kind: str
) -> None:
    with pytest.raises(Exception, match=f"proxy type '{kind}' is "):
        start(POD_TODAY, f"proxy {kind}")
