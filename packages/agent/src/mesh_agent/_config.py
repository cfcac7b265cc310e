"""The agent's whole configuration, composed once from flags, environment and files.

Names and defaults are Istio's; paths are relative to the working directory, as Istio's are.
Every fault is gathered and raised as one `ConfigError`.
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import msgspec

import certclient
import envoy_supervisor
import mesh_sds
import xds_proxy
from istio_settings import (
    Layer,
    LayerError,
    MergeError,
    MeshFile,
    NodeIdentity,
    PodInfo,
    ProxyConfig,
    Settings,
    excluded_interfaces,
    is_address,
    machine_addresses,
    merge_layers,
    mesh_file,
    parse_downward_file,
    parse_layer,
    single_layers,
)
from mesh_agent._errors import ConfigError
from mesh_agent.application._application_config import (
    ApplicationConfig,
    FollowedProcess,
    application_config,
)
from mesh_agent.config._certificate import (
    files_config,
    output_config,
    rotation_config,
    spiffe_id_of,
    trust_config,
)
from mesh_agent.config._control_plane import (
    authority_config,
    learned_roots_file,
    relay_config,
)
from mesh_agent.config._flags import Flags
from mesh_agent.config._grpc import (
    GrpcBesideEnvoy,
    grpc_beside_envoy,
    grpc_bootstrap_file,
    grpc_refresh,
)
from mesh_agent.config._machine_place import PlaceConfig, place_config
from mesh_agent.config._sockets import gateway_credentials_socket, sds_socket
from mesh_agent.config._status_server import StatusConfig, status_config
from mesh_agent.config.shown._effective import EffectiveConfig, effective_config
from mesh_agent.config.shown._results import results
from mesh_agent.config.table._without_effect import (
    fields_without_effect,
    flags_without_effect,
    mesh_fields_without_effect,
    variables_without_effect,
)
from mesh_agent.dns._dns_config import NamesConfig, names_config
from mesh_agent.envoy._bootstrap_files import BootstrapFiles, bootstrap_files
from mesh_agent.envoy._envoy_config import envoy_config
from mesh_agent.envoy._start_settings import StartSettings, start_settings
from mesh_agent.health._health_config import HealthCheckConfig, health_check_config
from mesh_agent.state._state_config import StateConfig, state_config
from mesh_agent.token_exchange._token_exchange_config import (
    TokenExchangeConfig,
    token_exchange_config,
)
from mesh_agent.wasm._wasm_config import WasmSettings, wasm_settings
from mesh_lifecycle import check_fields

_MAX_FILE_BYTES = 1 << 20
_MAX_SECRETS = 100
"""How many secrets one stream may ask for; Envoy opens a stream for each secret."""
_POD_LABELS = "./etc/istio/pod/labels"
_POD_ANNOTATIONS = "./etc/istio/pod/annotations"
_ROLES = ("sidecar", "router")
_NO_ROLES = {
    "waypoint": "is a proxy of Istio's ambient mode, which this agent has no part in: use router "
    "for a gateway, or Istio's own agent",
    "ztunnel": "is a program of its own, not an Envoy: run Istio's ztunnel",
    "ingress": "is called router since Istio 1.6: use router",
}


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's configuration: its own few values, and that of each part.

    authority: signs the certificate; None where the certificate is mounted as `files`.
    gateway_credentials: the socket where another process may serve the certificates of gateways.
    grpc_bootstrap: the file that tells a gRPC application where its configuration is; None where
        there is an Envoy. With it no Envoy is run.
    grpc_beside_envoy: how such applications are served beside an Envoy; None if they are not.
    grpc_refresh: how often these applications are to read the certificate's files; None: as often
        as the certificate's lifetime makes it necessary.
    names: how the workload's DNS queries are answered; None if they are not.
    trust_updates: whether roots are taken from the configuration stream.
    start: what ProxyConfigs of the control plane may want otherwise.
    learned_roots: the file that keeps roots learned from the control plane; None to learn none.
    place: where the machine is, and which cloud is asked for it.
    core_files: whether the agent and its Envoy may leave core files, which hold keys.
    state: what is kept on disk for an agent that is started again.
    metadata_variables: the variables that only `proxyMetadata` sets; they count for Envoy too.
    effective: every value with where it comes from, and the settings without effect.
    application: what the agent ends with, or starts itself; None if it runs until asked to stop.
    health_check: how the application's health is checked, to be reported; None if it is not.
    token_exchange: where the application exchanges its token; None if it does not.
    adapt_to_envoy: what an Envoy lacks of Istio's own extensions is taken out or translated.
    quarantine: a resource that Envoy refused keeps no other from it, and is not given to an Envoy
        that has no older version of it.
    wasm: how Wasm modules are fetched for Envoy; None if they are not.
    ready_needs_listeners: a gateway is not ready before its first listener.
    ready_poll_s: how often the stats of an Envoy that is not ready are read at first.
    """

    identity: NodeIdentity
    spiffe_id: certclient.SpiffeId
    authority: certclient.IstioCaConfig | None
    files: certclient.FilesConfig | None
    rotation: certclient.RotationConfig
    secrets: mesh_sds.SdsConfig
    gateway_credentials: Path
    relay: xds_proxy.RelayConfig
    names: NamesConfig | None
    envoy: envoy_supervisor.EnvoyConfig
    bootstrap_files: BootstrapFiles
    status: StatusConfig
    output: certclient.OutputFilesConfig | None
    trust: certclient.TrustConfig
    grpc_bootstrap: Path | None
    grpc_beside_envoy: GrpcBesideEnvoy | None = None
    grpc_refresh: timedelta | None = None
    trust_updates: bool
    start: StartSettings
    learned_roots: Path | None
    place: PlaceConfig
    core_files: bool
    state: StateConfig
    metadata_variables: Mapping[str, str]
    effective: EffectiveConfig
    application: ApplicationConfig | FollowedProcess | None = None
    health_check: HealthCheckConfig | None = None
    token_exchange: TokenExchangeConfig | None = None
    adapt_to_envoy: bool = True
    quarantine: bool = True
    wasm: WasmSettings | None = None
    ready_needs_listeners: bool = False
    ready_poll_s: float = 0.025

    def __post_init__(self) -> None:
        check_fields(self)


def load_config(
    flags: Flags, *, environ: Mapping[str, str], directory: Path, version: str
) -> AgentConfig:
    """Compose the configuration; reads files below `directory`. Raises `ConfigError`."""
    config, problems = compose_config(flags, environ=environ, directory=directory, version=version)
    if problems:
        raise ConfigError(problems)
    return config


def compose_config(
    flags: Flags, *, environ: Mapping[str, str], directory: Path, version: str
) -> tuple[AgentConfig, tuple[str, ...]]:
    """Compose the configuration, with the problems; what is wrong has its default there."""
    settings = Settings(environ, directory)
    problems = settings.problems
    pod = _pod_info(settings)
    proxy = _proxy_config(flags, settings, pod)
    settings.add_metadata(proxy.proxy_metadata, proxy.metadata_origins)
    without_effect, refused = variables_without_effect(settings.environ)
    problems.extend(refused)
    settings.without_effect.extend((*without_effect, *flags_without_effect(flags.passed)))
    settings.without_effect.extend(fields_without_effect(proxy))
    identity = _identity(flags, settings, pod)
    spiffe_id = spiffe_id_of(settings, identity)
    files = files_config(settings)
    bootstrap = bootstrap_files(settings, proxy)
    authority = None if files is not None else authority_config(settings, proxy)
    relay = relay_config(settings, proxy, files)
    envoy = envoy_config(
        settings,
        flags=flags,
        proxy=proxy,
        identity=identity,
        pod=pod,
        version=version,
        files=bootstrap,
    )
    trust_updates = settings.flag("PROXY_CONFIG_XDS_AGENT", default=True)
    place = place_config(settings, proxy)
    core_files = settings.flag("ISTIO_ENVOY_ENABLE_CORE_DUMP")
    names = names_config(settings, identity)
    rotation = rotation_config(settings, spiffe_id)
    secrets = mesh_sds.SdsConfig(socket_path=sds_socket(settings), max_names=_MAX_SECRETS)
    output = output_config(settings)
    trust = trust_config(settings)
    state = state_config(settings, spiffe_id, has_authority=authority is not None)
    grpc_bootstrap = grpc_bootstrap_file(settings, relay.socket_path)
    beside_envoy = grpc_beside_envoy(settings, relay, envoy)
    refresh = grpc_refresh(settings)
    status = status_config(settings, proxy=proxy, identity=identity, pod=pod)
    application = application_config(settings, flags)
    health_check = health_check_config(settings, proxy, addresses=identity.addresses)
    token_exchange = token_exchange_config(settings, flags)
    wasm = wasm_settings(settings)
    ready_needs_listeners = _ready_needs_listeners(settings, identity)
    adapt_to_envoy = settings.flag("MESH_AGENT_ADAPT_TO_ENVOY", default=True)
    quarantine = settings.flag("MESH_AGENT_QUARANTINE", default=True)
    effective = effective_config(
        settings,
        flags=flags,
        proxy=proxy,
        results=results(
            identity=identity,
            spiffe_id=spiffe_id,
            envoy=envoy,
            relay=relay,
            authority=authority,
            files=files,
        ),
        without_effect=tuple(dict.fromkeys(settings.without_effect)),
        directory=directory.absolute(),
    )
    config = AgentConfig(
        identity=identity,
        spiffe_id=spiffe_id,
        authority=authority,
        files=files,
        rotation=rotation,
        secrets=secrets,
        gateway_credentials=gateway_credentials_socket(settings),
        relay=relay,
        names=names,
        envoy=envoy,
        bootstrap_files=bootstrap,
        output=output,
        trust=trust,
        grpc_bootstrap=grpc_bootstrap,
        grpc_beside_envoy=beside_envoy,
        grpc_refresh=refresh,
        trust_updates=trust_updates,
        start=start_settings(settings, proxy, concurrency=envoy.concurrency),
        learned_roots=learned_roots_file(authority, relay) if trust_updates else None,
        status=status,
        place=place,
        core_files=core_files,
        state=state,
        metadata_variables=settings.metadata_added,
        effective=effective,
        application=application,
        health_check=health_check,
        token_exchange=token_exchange,
        adapt_to_envoy=adapt_to_envoy,
        quarantine=quarantine,
        wasm=wasm,
        ready_needs_listeners=ready_needs_listeners,
    )
    return config, tuple(dict.fromkeys(problems))


def _ready_needs_listeners(settings: Settings, identity: NodeIdentity) -> bool:
    without = settings.flag("MESH_AGENT_READY_WITHOUT_LISTENERS")
    return identity.role == "router" and not without


def _pod_info(settings: Settings) -> PodInfo:
    return PodInfo(
        labels=parse_downward_file(_read_if_there(settings, _POD_LABELS)),
        annotations=parse_downward_file(_read_if_there(settings, _POD_ANNOTATIONS)),
    )


def _proxy_config(flags: Flags, settings: Settings, pod: PodInfo) -> ProxyConfig:
    """Return the merged layers; one that is wrong is a problem, and left out."""
    mesh = MeshFile(Layer(name=flags.mesh_config, values={}), {})
    found: list[Layer] = []
    try:
        mesh = mesh_file(flags.mesh_config, _read_if_there(settings, flags.mesh_config))
    except LayerError as error:
        settings.problems.extend(error.problems)
    settings.without_effect.extend(
        mesh_fields_without_effect(mesh, settings.text("TRUST_DOMAIN", "cluster.local"))
    )
    for name, text in (
        ("PROXY_CONFIG", settings.text("PROXY_CONFIG")),
        ("annotation proxy.istio.io/config", pod.annotations.get("proxy.istio.io/config", "")),
    ):
        try:
            found.append(parse_layer(name, text))
        except LayerError as error:
            settings.problems.extend(error.problems)
    try:
        found.extend(
            single_layers(
                discovery_address=pod.annotations.get("sidecar.istio.io/discoveryAddress", ""),
                status_port=pod.annotations.get("status.sidecar.istio.io/port", ""),
                template_file=flags.template_file,
                service_cluster=flags.service_cluster,
                concurrency=flags.concurrency,
            )
        )
    except LayerError as error:
        settings.problems.extend(error.problems)
    try:
        return merge_layers([mesh.layer, *found])
    except MergeError as error:
        settings.problems.extend(error.problems)
        return error.config


def _identity(flags: Flags, settings: Settings, pod: PodInfo) -> NodeIdentity:
    if (why := _NO_ROLES.get(flags.role)) is not None:
        settings.problems.append(f"proxy type {flags.role!r} {why}")
    elif flags.role not in _ROLES:
        settings.problems.append(
            f"proxy type {flags.role!r} is not known, it must be one of {', '.join(_ROLES)}"
        )
    namespace = settings.text("POD_NAMESPACE", "default")
    given = settings.text("INSTANCE_IP")
    addresses = _addresses(given, pod)
    if given and not is_address(given):
        settings.problems.append(f"INSTANCE_IP is {given!r}, it must be an IP address")
    return NodeIdentity(
        role=flags.role,
        addresses=addresses,
        pod_name=settings.text("POD_NAME", "proxy"),
        namespace=namespace,
        service_account=settings.text("SERVICE_ACCOUNT", "default"),
        domain=flags.domain or f"{namespace}.svc.cluster.local",
    )


def _addresses(given: str, pod: PodInfo) -> tuple[str, ...]:
    """Return INSTANCE_IP and the machine's other addresses, or the machine's.

    An address that is none of this machine's was given for a reason (on loopback, for many
    workloads on one machine; of a router before it): then it is the only one.
    """
    machine = machine_addresses(leave_out=excluded_interfaces(pod.annotations))
    if not given:
        return machine
    return tuple(dict.fromkeys((given, *machine))) if given in machine else (given,)


def _read_if_there(settings: Settings, path: str) -> str:
    file = settings.under(path)
    try:
        return settings.read_file(file, max_bytes=_MAX_FILE_BYTES).decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        settings.problems.append(f"{file} can't be read: {why}")
        return ""
