"""The agent's whole configuration, composed once from flags, environment and files.

Names and defaults are Istio's; paths are relative to the working directory, as Istio's are.
Every fault is gathered and raised as one `ConfigError`.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import certclient
import envoy_supervisor
import mesh_sds
import xds_proxy
from mesh_agent import _node as node
from mesh_agent import _proxy_config as proxy_config
from mesh_agent._addresses import machine_addresses
from mesh_agent._flags import Flags
from mesh_agent._settings import ConfigError, Settings

_POD_LABELS = "./etc/istio/pod/labels"
_POD_ANNOTATIONS = "./etc/istio/pod/annotations"
_TOKEN = "./var/run/secrets/tokens/istio-token"  # noqa: S105 - a path
_ROOT_CERTIFICATE = "./var/run/secrets/istio/root-cert.pem"
_SDS_DIRECTORY = "./var/run/secrets/workload-spiffe-uds"
_REVOCATION_LIST = "./var/run/secrets/istio/crl/ca-crl.pem"
_CONTROL_PLANE_NAME = "istiod.istio-system.svc"
_ROLES = ("sidecar", "router")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusConfig:
    """Where the status server listens; an empty host is every interface."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """Everything the agent runs with: its own few values and each part's own configuration."""

    identity: node.NodeIdentity
    spiffe_id: certclient.SpiffeId
    authority: certclient.IstioCaConfig
    rotation: certclient.RotationConfig
    secrets: mesh_sds.SdsConfig
    relay: xds_proxy.RelayConfig
    envoy: envoy_supervisor.EnvoyConfig
    status: StatusConfig
    output: certclient.OutputFilesConfig | None
    trust: certclient.TrustConfig
    trust_updates: bool
    ready_poll_s: float = field(default=0.05)


def load_config(
    flags: Flags, *, environ: Mapping[str, str], directory: Path, version: str
) -> AgentConfig:
    """Compose the configuration; reads files below `directory`. Raises `ConfigError`."""
    settings = Settings(environ, directory)
    problems = settings.problems
    pod = _pod_info(settings)
    proxy = _proxy_config(flags, settings, pod)
    identity = _identity(flags, settings)
    spiffe_id = _spiffe_id(settings, identity)
    config = AgentConfig(
        identity=identity,
        spiffe_id=spiffe_id,
        authority=_authority(settings, proxy),
        rotation=_rotation(settings, spiffe_id),
        secrets=mesh_sds.SdsConfig(socket_path=_sds_socket(settings)),
        relay=_relay(settings, proxy),
        envoy=_envoy(
            settings, flags=flags, proxy=proxy, identity=identity, pod=pod, version=version
        ),
        output=_output(settings),
        trust=_trust(settings),
        trust_updates=settings.flag("PROXY_CONFIG_XDS_AGENT", default=True),
        status=StatusConfig(host=settings.text("MESH_AGENT_BIND_ADDRESS"), port=proxy.status_port),
    )
    if problems:
        raise ConfigError(tuple(dict.fromkeys(problems)))
    return config


def _pod_info(settings: Settings) -> node.PodInfo:
    return node.PodInfo(
        labels=node.parse_downward_file(_read_if_there(settings, _POD_LABELS)),
        annotations=node.parse_downward_file(_read_if_there(settings, _POD_ANNOTATIONS)),
    )


def _proxy_config(flags: Flags, settings: Settings, pod: node.PodInfo) -> proxy_config.ProxyConfig:
    layers: list[proxy_config.Layer] = []
    for name, text in (
        ("PROXY_CONFIG", settings.text("PROXY_CONFIG")),
        ("annotation proxy.istio.io/config", pod.annotations.get("proxy.istio.io/config", "")),
    ):
        try:
            layers.append(proxy_config.parse_layer(name, text))
        except proxy_config.LayerError as error:
            settings.problems.append(str(error))
    try:
        mesh = proxy_config.mesh_layer(
            flags.mesh_config, _read_if_there(settings, flags.mesh_config)
        )
        own = proxy_config.override_layer(
            discovery_address=pod.annotations.get("sidecar.istio.io/discoveryAddress", ""),
            status_port=pod.annotations.get("status.sidecar.istio.io/port", ""),
            service_cluster=flags.service_cluster,
            concurrency=flags.concurrency,
        )
        return proxy_config.merge_layers([mesh, *layers, own])
    except proxy_config.LayerError as error:
        settings.problems.append(str(error))
        return proxy_config.ProxyConfig()


def _identity(flags: Flags, settings: Settings) -> node.NodeIdentity:
    if flags.role not in _ROLES:
        settings.problems.append(
            f"proxy type {flags.role!r} is not known, it must be one of {', '.join(_ROLES)}"
        )
    namespace = settings.text("POD_NAMESPACE", "default")
    given = settings.text("INSTANCE_IP")
    addresses = (given,) if given else machine_addresses()
    if given and not _is_address(given):
        settings.problems.append(f"INSTANCE_IP is {given!r}, it must be an IP address")
    return node.NodeIdentity(
        role=flags.role,
        addresses=addresses,
        pod_name=settings.text("POD_NAME", "proxy"),
        namespace=namespace,
        service_account=settings.text("SERVICE_ACCOUNT", "default"),
        domain=flags.domain or f"{namespace}.svc.cluster.local",
    )


def _spiffe_id(settings: Settings, identity: node.NodeIdentity) -> certclient.SpiffeId:
    try:
        return certclient.SpiffeId(
            trust_domain=settings.text("TRUST_DOMAIN", "cluster.local"),
            namespace=identity.namespace,
            service_account=identity.service_account,
        )
    except certclient.InvalidSpiffeId as error:
        settings.problems.append(
            f"TRUST_DOMAIN, POD_NAMESPACE and SERVICE_ACCOUNT don't make an identity: {error}"
        )
        return certclient.SpiffeId(trust_domain="x", namespace="x", service_account="x")


def _authority(settings: Settings, proxy: proxy_config.ProxyConfig) -> certclient.IstioCaConfig:
    address = settings.text("CA_ADDR", proxy.discovery_address)
    plaintext = address.endswith(":15010")
    chain, key = _client_certificate(settings)
    return certclient.IstioCaConfig(
        address=address,
        server_name=_server_name(settings, address),
        root_certificate=(
            None if plaintext else _root_certificate(settings, "CA_ROOT_CA") or certclient.SYSTEM
        ),
        token_path=settings.under(_TOKEN),
        client_certificate_path=chain,
        client_key_path=key,
        cluster_id=settings.text("ISTIO_META_CLUSTER_ID"),
        cert_signer=settings.text("ISTIO_META_CERT_SIGNER"),
        headers=settings.prefixed("CA_HEADER_"),
    )


def _client_certificate(settings: Settings) -> tuple[Path, Path] | tuple[None, None]:
    """What a machine was given when it was set up, to be known by until it has its own."""
    directory = settings.text("PROV_CERT")
    if not directory:
        return None, None
    return settings.under(directory) / "cert-chain.pem", settings.under(directory) / "key.pem"


def _token(settings: Settings) -> Path | None:
    """The token file; None where there is none and a provisioned certificate serves instead."""
    path = settings.under(_TOKEN)
    if path.is_file():
        return path
    chain, _ = _client_certificate(settings)
    if chain is None:
        settings.problems.append(
            f"token file {path} does not exist; the agent proves with it who it is: mount the "
            "workload's token there, or name a directory with a certificate in PROV_CERT"
        )
    elif not chain.is_file():
        settings.problems.append(
            f"neither token file {path} nor certificate {chain} exists; the agent proves with "
            "one of them who it is"
        )
    return None


def _root_certificate(settings: Settings, variable: str) -> Path | None:
    """The file of roots, or None for the machine's own."""
    if settings.text(variable) == "SYSTEM":
        return None
    provisioned = settings.text("PROV_CERT")
    default = f"{provisioned}/root-cert.pem" if provisioned else _ROOT_CERTIFICATE
    path = settings.path(variable, default)
    if not path.is_file():
        settings.problems.append(
            f"root certificate {path} does not exist; the control plane is checked against it: "
            "mount it there or name another file in XDS_ROOT_CA and CA_ROOT_CA"
        )
    return path


def _server_name(settings: Settings, address: str) -> str:
    host = address.rpartition(":")[0].strip("[]")
    if "localhost" in host:
        host = _CONTROL_PLANE_NAME
    return settings.text("ISTIOD_SAN", host)


def _trust(settings: Settings) -> certclient.TrustConfig:
    revoked = settings.under(_REVOCATION_LIST)
    # Only where the platform mounts one: to follow a file costs memory.
    wanted = settings.flag("PILOT_ENABLE_CA_CRL", default=True) and revoked.parent.is_dir()
    return certclient.TrustConfig(crl_path=revoked if wanted else None)


def _output(settings: Settings) -> certclient.OutputFilesConfig | None:
    directory = settings.text("OUTPUT_CERTS")
    if not directory:
        return None
    # In a pod another container reads the files, as another user; on a machine nobody else should.
    in_kubernetes = bool(settings.text("KUBERNETES_SERVICE_HOST"))
    return certclient.OutputFilesConfig(
        directory=settings.under(directory), mode=0o644 if in_kubernetes else 0o600
    )


def _rotation(settings: Settings, spiffe_id: certclient.SpiffeId) -> certclient.RotationConfig:
    return certclient.RotationConfig(
        spiffe_id=spiffe_id,
        key_type=_key_type(settings),
        key_encoding=(
            certclient.KeyEncoding.PKCS8
            if settings.flag("PKCS8_KEY")
            else certclient.KeyEncoding.TRADITIONAL
        ),
        lifetime=settings.positive_duration("SECRET_TTL", timedelta(hours=24)),
        grace_ratio=settings.ratio("SECRET_GRACE_PERIOD_RATIO", 0.5),
        jitter=settings.ratio("SECRET_GRACE_PERIOD_RATIO_JITTER", 0.01),
    )


def _key_type(settings: Settings) -> certclient.KeyType:
    algorithm = settings.text("ECC_SIGNATURE_ALGORITHM")
    if algorithm == "ECDSA":
        curve = settings.text("ECC_CURVE", "P256")
        if curve not in ("P256", "P384"):
            settings.problems.append(f"ECC_CURVE is {curve!r}, it must be P256 or P384")
        return certclient.KeyType.P384 if curve == "P384" else certclient.KeyType.P256
    if algorithm:
        settings.problems.append(
            f"ECC_SIGNATURE_ALGORITHM is {algorithm!r}, it must be ECDSA or empty"
        )
    size = settings.text("WORKLOAD_RSA_KEY_SIZE")
    sizes = {
        "": certclient.KeyType.P256,
        "2048": certclient.KeyType.RSA_2048,
        "3072": certclient.KeyType.RSA_3072,
        "4096": certclient.KeyType.RSA_4096,
    }
    if size not in sizes:
        settings.problems.append(
            f"WORKLOAD_RSA_KEY_SIZE is {size!r}, it must be 2048, 3072 or 4096"
        )
        return certclient.KeyType.P256
    return sizes[size]


def _relay(settings: Settings, proxy: proxy_config.ProxyConfig) -> xds_proxy.RelayConfig:
    cluster_id = settings.text("ISTIO_META_CLUSTER_ID")
    plaintext = proxy.plaintext_control_plane or proxy.discovery_address.endswith(":15010")
    chain, key = _client_certificate(settings)
    return xds_proxy.RelayConfig(
        socket_path=_xds_socket(settings, proxy),
        upstream=xds_proxy.UpstreamConfig(
            address=proxy.discovery_address,
            root_certificate=(
                None
                if plaintext
                else _root_certificate(settings, "XDS_ROOT_CA") or xds_proxy.SYSTEM
            ),
            server_name=_server_name(settings, proxy.discovery_address),
            token_path=None if plaintext else _token(settings),
            client_certificate_path=chain,
            client_key_path=key,
            metadata=(
                *((("clusterid", cluster_id),) if cluster_id else ()),
                *settings.prefixed("XDS_HEADER_"),
            ),
        ),
    )


def _sds_socket(settings: Settings) -> Path:
    name = settings.text("WORKLOAD_IDENTITY_SOCKET_FILE", "socket")
    if name != Path(name).name:
        settings.problems.append(
            f"WORKLOAD_IDENTITY_SOCKET_FILE is {name!r}, it must be the name of a file in "
            f"{_SDS_DIRECTORY}, without separators"
        )
    return settings.under(_SDS_DIRECTORY) / name


def _xds_socket(settings: Settings, proxy: proxy_config.ProxyConfig) -> Path:
    return settings.under(proxy.config_path) / "XDS"


def _envoy(
    settings: Settings,
    *,
    flags: Flags,
    proxy: proxy_config.ProxyConfig,
    identity: node.NodeIdentity,
    pod: node.PodInfo,
    version: str,
) -> envoy_supervisor.EnvoyConfig:
    listen = _listen_addresses(settings, identity)
    level, component_level = _log_levels(flags)
    region, zone, sub_zone = node.locality(pod.labels)
    bootstrap = envoy_supervisor.BootstrapConfig(
        node_id=identity.node_id,
        node_cluster=node.cluster_name(
            identity,
            service_cluster=proxy.service_cluster,
            pod=pod,
            workload=settings.text("ISTIO_META_WORKLOAD_NAME"),
        ),
        node_metadata=node.node_metadata(
            identity,
            environ=settings.environ,
            proxy_config=proxy.merged,
            proxy_metadata=proxy.proxy_metadata,
            pod=pod,
            version=version,
        ),
        locality=envoy_supervisor.Locality(region=region, zone=zone, sub_zone=sub_zone),
        admin=envoy_supervisor.Address(host=listen.admin, port=proxy.proxy_admin_port),
        xds_socket=_xds_socket(settings, proxy),
        sds_socket=_sds_socket(settings),
        status_target=envoy_supervisor.Address(host=listen.status, port=proxy.status_port),
        readiness_listener=envoy_supervisor.Address(
            host=listen.everyone, port=settings.port("ENVOY_STATUS_PORT", 15021)
        ),
        prometheus_listener=envoy_supervisor.Address(
            host=listen.everyone, port=settings.port("ENVOY_PROMETHEUS_PORT", 15090)
        ),
    )
    return envoy_supervisor.EnvoyConfig(
        binary=_envoy_binary(flags, settings, proxy),
        bootstrap=bootstrap,
        directory=settings.under(proxy.config_path),
        drain_time=proxy.drain_duration,
        termination_drain=proxy.termination_drain_duration,
        minimum_drain=_minimum_drain(settings),
        drain_direction=(
            envoy_supervisor.DrainDirection.INBOUND
            if identity.role == "sidecar"
            else envoy_supervisor.DrainDirection.ALL
        ),
        hot_restart=settings.flag("MESH_AGENT_HOT_RESTART", default=True),
        crashes=envoy_supervisor.CrashPolicy(
            budget=5 if settings.flag("MESH_AGENT_RESTART_ENVOY", default=True) else 0
        ),
        parent_shutdown_time=proxy.parent_shutdown_duration,
        log_level=level,
        component_log_level=component_level,
        concurrency=flags.concurrency or proxy.concurrency or 0,
        local_address_ipv6=listen.ipv6,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListenAddresses:
    """Where Envoy's own interfaces listen: for its agent, for the status server, for everyone."""

    admin: str
    status: str
    everyone: str
    ipv6: bool


def _listen_addresses(settings: Settings, identity: node.NodeIdentity) -> _ListenAddresses:
    ipv6 = all(":" in address for address in identity.addresses)
    loopback, wildcard = ("::1", "::") if ipv6 else ("127.0.0.1", "0.0.0.0")  # noqa: S104
    given = settings.text("MESH_AGENT_BIND_ADDRESS")
    if given and not _is_address(given):
        settings.problems.append(
            f"MESH_AGENT_BIND_ADDRESS is {given!r}, it must be an IP address of this machine"
        )
        given = ""
    # The admin interface asks nobody who they are: it never leaves the machine.
    stays = bool(given) and ipaddress.ip_address(given).is_loopback
    return _ListenAddresses(
        admin=given if stays else loopback,
        status=given or loopback,
        everyone=given or wildcard,
        ipv6=ipv6,
    )


def _minimum_drain(settings: Settings) -> timedelta:
    """Istio waits at least this long only where it also ends early; so do we."""
    if not settings.flag("EXIT_ON_ZERO_ACTIVE_CONNECTIONS"):
        return timedelta()
    return settings.duration("MINIMUM_DRAIN_DURATION", timedelta(seconds=5))


def _envoy_binary(flags: Flags, settings: Settings, proxy: proxy_config.ProxyConfig) -> Path:
    explicit = Path(flags.envoy_path) if flags.envoy_path else None
    configured = Path(proxy.binary_path)
    if explicit is None and "ENVOY_PATH" not in settings.environ and configured.is_file():
        explicit = configured
    try:
        return envoy_supervisor.find_envoy(explicit, settings.environ)
    except envoy_supervisor.EnvoyNotFound as error:
        settings.problems.append(str(error))
        return configured


def _log_levels(flags: Flags) -> tuple[str, str]:
    """Istio's level flag may mix a level with `component:level` items."""
    level, components = "warning", []
    for item in filter(None, (part.strip() for part in flags.proxy_log_level.split(","))):
        if ":" in item:
            components.append(item)
        else:
            level = item
    return level, ",".join(components) or flags.proxy_component_log_level


def _read_if_there(settings: Settings, path: str) -> str:
    file = settings.under(path)
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        settings.problems.append(f"{file} can't be read: {error}")
        return ""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
