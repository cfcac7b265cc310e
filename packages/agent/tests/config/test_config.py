import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import certclient
import envoy_supervisor
import xds_proxy
from mesh_agent import AgentConfig, ConfigError

Load = Callable[..., AgentConfig]


def authority(config: AgentConfig) -> certclient.IstioCaConfig:
    assert config.authority is not None
    return config.authority


def bootstrap(config: AgentConfig) -> envoy_supervisor.BootstrapConfig:
    assert isinstance(config.envoy.bootstrap, envoy_supervisor.BootstrapConfig)
    return config.envoy.bootstrap


def test_a_workload_on_a_platform_needs_no_more_than_the_platform_gives(load: Load) -> None:
    config = load()
    assert config.identity.node_id == ("sidecar~127.0.9.1~web-1.shop~shop.svc.cluster.local")
    assert str(config.spiffe_id) == "spiffe://cluster.local/ns/shop/sa/web"
    assert config.rotation.lifetime == timedelta(hours=24)
    assert config.rotation.key_type is certclient.KeyType.P256
    assert config.relay.upstream.address == authority(config).address == "127.0.0.1:15012"
    assert config.status.port == 15020
    assert config.envoy.drain_direction is envoy_supervisor.DrainDirection.INBOUND


def test_paths_are_istios_below_the_working_directory(load: Load, workload: Path) -> None:
    config = load()
    assert config.relay.socket_path == workload / "etc/istio/proxy/XDS"
    assert config.secrets.socket_path == (workload / "var/run/secrets/workload-spiffe-uds/socket")
    assert authority(config).token_path == workload / "var/run/secrets/tokens/istio-token"
    assert config.relay.upstream.root_certificate == (
        workload / "var/run/secrets/istio/root-cert.pem"
    )


def test_istio_listens_everywhere_but_for_the_admin_interface(load: Load) -> None:
    rendered = bootstrap(load())
    assert str(rendered.admin) == "127.0.0.1:15000"
    assert str(rendered.readiness_listener) == "0.0.0.0:15021"
    assert str(rendered.prometheus_listener) == "0.0.0.0:15090"
    assert load().status.host == ""


def test_one_address_can_be_given_for_all_that_listens(load: Load) -> None:
    config = load({"MESH_AGENT_BIND_ADDRESS": "127.0.9.1"})
    rendered = bootstrap(config)
    assert str(rendered.admin) == "127.0.9.1:15000"
    assert str(rendered.status_target) == "127.0.9.1:15020"
    assert str(rendered.readiness_listener) == "127.0.9.1:15021"
    assert str(rendered.prometheus_listener) == "127.0.9.1:15090"
    assert config.status.host == "127.0.9.1"


def test_the_admin_interface_stays_on_the_machine_whatever_address_is_given(load: Load) -> None:
    rendered = bootstrap(load({"MESH_AGENT_BIND_ADDRESS": "192.0.2.7"}))
    assert str(rendered.admin) == "127.0.0.1:15000"
    assert str(rendered.readiness_listener) == "192.0.2.7:15021"


def test_an_ipv6_workload_gets_ipv6_listeners(load: Load) -> None:
    config = load({"INSTANCE_IP": "fd00::7"})
    assert str(bootstrap(config).admin) == "[::1]:15000"
    assert str(bootstrap(config).readiness_listener) == "[::]:15021"
    assert config.envoy.local_address_ipv6


def test_the_control_planes_name_is_checked_as_istio_does(load: Load) -> None:
    localhost = {"PROXY_CONFIG": '{"discoveryAddress": "localhost:15012"}'}
    assert load(localhost).relay.upstream.server_name == "istiod.istio-system.svc"
    assert authority(load(localhost)).server_name == "istiod.istio-system.svc"
    assert load().relay.upstream.server_name == "127.0.0.1"
    assert load({"ISTIOD_SAN": "cp.example"}).relay.upstream.server_name == "cp.example"
    assert authority(load({"CA_ADDR": "ca.example:15012"})).server_name == "ca.example"


def test_further_control_planes_are_used_in_order(load: Load) -> None:
    further = {
        "MESH_AGENT_FURTHER_CONTROL_PLANES": "b.example:15012, localhost:15012 ,[::1]:15012,"
    }
    upstream = load(further).relay.upstream
    assert upstream.further_addresses == (
        ("b.example:15012", "b.example"),
        ("localhost:15012", "istiod.istio-system.svc"),
        ("[::1]:15012", "::1"),
    )
    assert load().relay.upstream.further_addresses == ()
    named = load({**further, "ISTIOD_SAN": "cp.example"}).relay.upstream.further_addresses
    assert {each.server_name for each in named} == {"cp.example"}


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("b.example", "'b.example' is not host:port"),
        ("b.example:70000", "port must be between 1 and 65535"),
        ("::1:15012", "is not host:port"),
        ("b.example:15012,b.example:15012", "is there twice"),
        ("b.example:15010", "is Istio's plaintext port"),
    ],
)
def test_further_control_planes_that_can_never_work(load: Load, listed: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"MESH_AGENT_FURTHER_CONTROL_PLANES: .*{said}"):
        load({"MESH_AGENT_FURTHER_CONTROL_PLANES": listed})


def test_what_becomes_of_envoys_stream_when_the_control_plane_goes(load: Load) -> None:
    assert load().relay.on_disconnect is xds_proxy.OnDisconnect.RECONNECT
    named = load({"MESH_AGENT_XDS_ON_DISCONNECT": "end"})
    assert named.relay.on_disconnect is xds_proxy.OnDisconnect.END
    with pytest.raises(ConfigError, match="XDS_ON_DISCONNECT is 'END': it must be reconnect or"):
        load({"MESH_AGENT_XDS_ON_DISCONNECT": "END"})


def test_plaintext_is_for_istios_plaintext_port_and_takes_no_root(load: Load) -> None:
    config = load({"PROXY_CONFIG": '{"discoveryAddress": "127.0.0.1:15010"}'})
    assert config.relay.upstream.root_certificate is None
    assert config.relay.upstream.token_path is None
    assert authority(config).root_certificate is None


def test_the_machines_own_roots_can_be_asked_for(load: Load, workload: Path) -> None:
    system = {"XDS_ROOT_CA": "SYSTEM", "CA_ROOT_CA": "SYSTEM"}
    config = load(system)
    assert config.relay.upstream.root_certificate is xds_proxy.SYSTEM
    assert authority(config).root_certificate is certclient.SYSTEM
    elsewhere = workload / "machine.pem"
    with pytest.raises(ConfigError, match=r"root certificate .*/machine\.pem does not exist"):
        load({**system, "SSL_CERT_FILE": str(elsewhere)})
    elsewhere.touch()
    config = load({**system, "SSL_CERT_FILE": str(elsewhere)})
    assert config.relay.upstream.root_certificate is xds_proxy.SYSTEM
    assert authority(config).root_certificate is certclient.SYSTEM


def test_roots_are_learned_only_where_one_file_of_the_meshs_own_is_believed(
    load: Load, workload: Path
) -> None:
    kept = load({}).learned_roots
    assert kept == load({}).relay.socket_path.parent / "learned-roots.json"
    other = workload / "other.pem"
    other.touch()
    system = {"XDS_ROOT_CA": "SYSTEM", "CA_ROOT_CA": "SYSTEM"}
    changes: tuple[dict[str, str], ...] = (
        {"CA_ROOT_CA": str(other)},
        {"XDS_ROOT_CA": str(other)},
        system,
        {**system, "SSL_CERT_FILE": str(other)},
        {"PROXY_CONFIG_XDS_AGENT": "false"},
        {"PROXY_CONFIG": "discoveryAddress: istiod:15010"},
    )
    for change in changes:
        assert load(change).learned_roots is None, change
    assert load({"CA_ROOT_CA": str(other), "XDS_ROOT_CA": str(other)}).learned_roots == kept


@pytest.mark.parametrize(
    ("environ", "encoding"),
    [
        ({}, certclient.KeyEncoding.TRADITIONAL),
        ({"DISABLE_ENVOY": "true"}, certclient.KeyEncoding.PKCS8),
        ({"DISABLE_ENVOY": "true", "PKCS8_KEY": "false"}, certclient.KeyEncoding.TRADITIONAL),
    ],
)
def test_keys_are_pkcs8_where_an_application_without_an_envoy_reads_them(
    load: Load, environ: dict[str, str], encoding: certclient.KeyEncoding
) -> None:
    assert load(environ).rotation.key_encoding is encoding


def test_deprecated_fields_are_not_warned_of_unless_asked_for(load: Load, workload: Path) -> None:
    name = "ENVOY_SKIP_DEPRECATED_LOGS"
    assert not load({}).envoy.skip_deprecated_logs, "this Envoy does not know the flag"
    (workload / "envoy").write_text("#!/bin/sh\n# --skip-deprecated-logs\n")
    assert load({}).envoy.skip_deprecated_logs
    assert not load({name: "false"}).envoy.skip_deprecated_logs


def test_settings_reach_the_parts_they_are_for(load: Load) -> None:
    config = load(
        {
            "SECRET_TTL": "20s",
            "SECRET_GRACE_PERIOD_RATIO": "0.25",
            "ECC_SIGNATURE_ALGORITHM": "ECDSA",
            "ECC_CURVE": "P384",
            "TRUST_DOMAIN": "mesh.example",
            "ISTIO_META_CLUSTER_ID": "east",
            "XDS_HEADER_x-team": "shop",
            "PKCS8_KEY": "true",
            "MESH_AGENT_RESTART_ENVOY": "false",
            "MESH_AGENT_HOT_RESTART": "false",
            "CA_HEADER_x-team": "shop",
            "EXIT_ON_ZERO_ACTIVE_CONNECTIONS": "true",
            "MINIMUM_DRAIN_DURATION": "3s",
        },
        proxy_log_level="info,upstream:debug",
        concurrency=2,
    )
    assert config.rotation.lifetime == timedelta(seconds=20)
    assert config.rotation.grace_ratio == 0.25
    assert config.rotation.key_encoding is certclient.KeyEncoding.PKCS8
    assert config.rotation.key_type is certclient.KeyType.P384
    assert config.spiffe_id.trust_domain == "mesh.example"
    assert ("x-team", "shop") in config.relay.upstream.metadata
    assert ("clusterid", "east") in config.relay.upstream.metadata
    assert authority(config).headers == (("x-team", "shop"),)
    assert authority(config).cluster_id == "east"
    assert config.envoy.minimum_drain == timedelta(seconds=3)
    assert (config.envoy.log_level, config.envoy.component_log_level) == ("info", "upstream:debug")
    assert config.envoy.concurrency == 2
    assert config.envoy.crashes.budget == 0
    assert not config.envoy.hot_restart


def test_pod_labels_and_annotations_are_read(load: Load, workload: Path) -> None:
    pod = workload / "etc/istio/pod"
    pod.mkdir(parents=True)
    (pod / "labels").write_text('app="web"\ntopology.istio.io/locality="r/z/s"\n')
    (pod / "annotations").write_text('proxy.istio.io/config="statusPort: 15999"\n')
    config = load()
    assert bootstrap(config).node_cluster == "web.shop"
    assert bootstrap(config).locality.zone == "z"
    assert config.status.port == 15999


def test_without_an_address_given_the_machines_own_are_used(load: Load) -> None:
    assert load({"INSTANCE_IP": ""}).identity.addresses


@pytest.mark.parametrize(
    ("environ", "complaint"),
    [
        ({"INSTANCE_IP": "here"}, "INSTANCE_IP is 'here', it must be an IP address"),
        ({"MESH_AGENT_BIND_ADDRESS": "lo"}, "MESH_AGENT_BIND_ADDRESS is 'lo', it must be an IP"),
        ({"SECRET_TTL": "soon"}, "SECRET_TTL: 'soon' is not a duration such as 24h"),
        ({"SECRET_TTL": "0s"}, "SECRET_TTL is '0s', it must be longer than nothing"),
        ({"SECRET_GRACE_PERIOD_RATIO": "2"}, "it must lie between 0 and 1"),
        ({"SECRET_GRACE_PERIOD_RATIO": "half"}, "'half' is not a number"),
        ({"ENVOY_STATUS_PORT": "0"}, "ENVOY_STATUS_PORT is '0', it must be a port"),
        ({"ECC_SIGNATURE_ALGORITHM": "DSA"}, "it must be ECDSA or empty"),
        ({"WORKLOAD_RSA_KEY_SIZE": "1024"}, "it must be 2048, 3072 or 4096"),
        ({"EXIT_ON_ZERO_ACTIVE_CONNECTIONS": "maybe"}, "it must be true or false"),
        ({"FILE_MOUNTED_CERTS": "true", "PROV_CERT": "x"}, "PROV_CERT are both set"),
        ({"WORKLOAD_IDENTITY_SOCKET_FILE": "../s"}, "it must be the name of a file"),
        ({"POD_NAMESPACE": "a/b"}, "don't make an identity: namespace 'a/b'"),
        ({"PROXY_CONFIG": "{"}, "PROXY_CONFIG:1: not valid YAML"),
        ({"XDS_ROOT_CA": "/no/such"}, "root certificate /no/such does not exist"),
    ],
)
def test_each_mistake_is_one_sentence(load: Load, environ: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environ)
    assert any(complaint in problem for problem in caught.value.problems)


def test_a_provisioned_certificate_stands_in_for_the_token(load: Load, workload: Path) -> None:
    (workload / "var/run/secrets/tokens/istio-token").unlink()
    provisioned = workload / "etc/certs"
    provisioned.mkdir(parents=True)
    for name in ("cert-chain.pem", "key.pem", "root-cert.pem"):
        (provisioned / name).write_text("x")
    config = load({"PROV_CERT": "./etc/certs"})
    assert config.relay.upstream.token_path is None
    assert config.relay.upstream.client_certificate_path == provisioned / "cert-chain.pem"
    assert config.relay.upstream.root_certificate == provisioned / "root-cert.pem"
    assert authority(config).client_key_path == provisioned / "key.pem"
    (provisioned / "cert-chain.pem").unlink()
    with pytest.raises(ConfigError, match=r"neither token file .* nor certificate .* exists"):
        load({"PROV_CERT": "./etc/certs"})


def test_mounted_certificates_need_no_authority_and_no_token(load: Load, workload: Path) -> None:
    (workload / "var/run/secrets/tokens/istio-token").unlink()
    (workload / "var/run/secrets/istio/root-cert.pem").unlink()
    mounted = workload / "etc/certs"
    mounted.mkdir(parents=True)
    for name in ("cert-chain.pem", "key.pem", "root-cert.pem"):
        (mounted / name).write_text("x")
    config = load()
    assert config.authority is None
    assert config.files == certclient.FilesConfig.in_directory(mounted)
    assert config.relay.upstream.client_certificate_path == mounted / "cert-chain.pem"
    assert config.relay.upstream.root_certificate == mounted / "root-cert.pem"
    assert config.relay.upstream.token_path is None


def test_what_the_agent_writes_is_not_read_back(load: Load, workload: Path) -> None:
    mounted = workload / "etc/certs"
    mounted.mkdir(parents=True)
    for name in ("cert-chain.pem", "key.pem", "root-cert.pem"):
        (mounted / name).write_text("x")
    config = load({"OUTPUT_CERTS": "./etc/certs", "PROV_CERT": "./etc/certs"})
    assert config.files is None
    assert config.authority is not None


def test_certificates_are_written_out_when_asked_for(load: Load, workload: Path) -> None:
    assert load().output is None
    output = load({"OUTPUT_CERTS": "./etc/certs"}).output
    assert output == certclient.OutputFilesConfig(directory=workload / "etc/certs", mode=0o600)
    in_a_pod = load({"OUTPUT_CERTS": "./etc/certs", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}).output
    assert in_a_pod is not None
    assert in_a_pod.mode == 0o644


def test_a_bootstrap_of_the_users_own_stands_in_for_ours(load: Load, workload: Path) -> None:
    (workload / "own.json").write_text('{"admin": {}}')
    envoy = load({"ISTIO_BOOTSTRAP": "own.json"}).envoy
    assert envoy.bootstrap == workload / "own.json"
    assert not envoy.listener_changes_reported, "its listeners may come from elsewhere"
    assert load().envoy.listener_changes_reported


def test_an_override_is_laid_over_the_bootstrap(load: Load, workload: Path) -> None:
    (workload / "more.yaml").write_text("stats_flush_interval: 1s")
    config = load({"ISTIO_BOOTSTRAP_OVERRIDE": "more.yaml"})
    assert config.envoy.extra_args == ("--config-yaml", "stats_flush_interval: 1s")
    assert config.bootstrap_files.paths == (workload / "more.yaml",)
    (workload / "more.yaml").write_text("x" * 200_000)
    with pytest.raises(ConfigError, match=r"ISTIO_BOOTSTRAP_OVERRIDE: .*more.yaml has 200000 byt"):
        load({"ISTIO_BOOTSTRAP_OVERRIDE": "more.yaml"})


def test_metrics_are_for_everybody_and_with_envoys_by_default(load: Load) -> None:
    status = load().status
    assert (status.local_metrics, status.envoy_metrics) == (False, True)
    environ = {"METRICS_LOCALHOST_ACCESS_ONLY": "true", "PILOT_AGENT_MERGE_ENVOY_STATS": "false"}
    status = load(environ).status
    assert (status.local_metrics, status.envoy_metrics) == (True, False)


def test_a_missing_token_names_the_file(load: Load, workload: Path) -> None:
    (workload / "var/run/secrets/tokens/istio-token").unlink()
    with pytest.raises(ConfigError, match=r"token file .*istio-token does not exist"):
        load()


def test_a_missing_envoy_says_where_was_looked(load: Load) -> None:
    with pytest.raises(ConfigError, match="/no/such/envoy"):
        load(envoy_path="/no/such/envoy")


def test_without_envoy_none_is_needed_and_a_grpc_bootstrap_is_written(
    load: Load, workload: Path
) -> None:
    nowhere = {"DISABLE_ENVOY": "true", "ENVOY_PATH": "/no/such/envoy"}
    config = load(nowhere, envoy_path="")
    assert config.grpc_bootstrap == workload / "etc/istio/proxy/grpc-bootstrap.json"
    elsewhere = load({**nowhere, "GRPC_XDS_BOOTSTRAP": "run/grpc.json"})
    assert elsewhere.grpc_bootstrap == workload / "run/grpc.json"
    assert load().grpc_bootstrap is None


def test_an_unknown_role_is_refused(load: Load) -> None:
    with pytest.raises(ConfigError, match="'gateway' is not known, it must be one of sidecar"):
        load(role="gateway")


def test_all_mistakes_are_reported_at_once(load: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load({"INSTANCE_IP": "here", "SECRET_TTL": "soon"}, role="gateway")
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("name", ["labels", "annotations"])
def test_a_fifo_among_the_pods_files_is_a_problem_and_no_wait(
    load: Load, workload: Path, name: str
) -> None:
    path = workload / "etc/istio/pod" / name
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    with pytest.raises(ConfigError, match=f"{name} can't be read: it is a FIFO, a regular file"):
        load()
