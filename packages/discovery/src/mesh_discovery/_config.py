"""The settings of the command, from flags and environment; mistakes are reported all at once."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from istio_config.addresses import is_host, split_host_port
from istio_settings import SettingWithoutEffect
from mesh_address_guard import (
    THIS_MACHINE,
    AddressGuard,
    IpNetwork,
    NotANetwork,
    parse_networks,
)
from mesh_discovery._registration_limits import LIMITS, RegistrationLimits
from mesh_discovery.settings._connections import (
    SERVING_TLS,
    STREAM_SETTINGS,
    ServingTls,
    StreamSettings,
    read_serving_tls,
    read_stream_settings,
)
from mesh_discovery.settings._reader import Reader
from mesh_discovery.settings._tokens import TokenRule, read_tokens
from mesh_discovery.settings._without_effect import settings_without_effect
from mesh_identity import InvalidSpiffeId, checked_trust_domain
from mesh_lifecycle import check_fields
from mesh_listening import GRPC_LIMITS, HTTP_LIMITS, ConnectionLimits
from xds_server import ServerConfig

BELIEVE_TIMESTAMPS = "MESH_DISCOVERY_BELIEVE_TIMESTAMPS"
BELIEVE_PLAINTEXT = "MESH_DISCOVERY_BELIEVE_PLAINTEXT"
PLAINTEXT_SECRETS = "MESH_DISCOVERY_PLAINTEXT_SECRETS"
ALLOW_UNSUPPORTED = "MESH_DISCOVERY_ALLOW_UNSUPPORTED"
STRICT_NAMESPACES = "MESH_DISCOVERY_STRICT_NAMESPACES"
CA_SIGNERS = "MESH_DISCOVERY_CA_SIGNERS"
KEY_SET_NETWORKS = "MESH_DISCOVERY_KEY_SET_NETWORKS"
_BLOCKED_KEY_SETS = "BLOCKED_CIDRS_IN_JWKS_URIS"

_MOST_CA_SIGNERS = 64
_USUAL = Path("./etc/istio/config")
"""Where Istio's control plane looks for mesh config; here the objects' files, too."""


_XDS = ServerConfig()


class ClientLimits(NamedTuple):
    """The memory that clients of xDS may take, in bytes, by the names of `ServerConfig`."""

    max_kept_bytes: int = _XDS.max_kept_bytes
    max_kept_bytes_per_identity: int = _XDS.max_kept_bytes_per_identity
    max_kept_bytes_per_stream: int = _XDS.max_kept_bytes_per_stream
    max_pending_write_bytes: int = _XDS.max_pending_write_bytes
    max_pending_write_bytes_per_identity: int = _XDS.max_pending_write_bytes_per_identity


CLIENT_LIMITS = ClientLimits()


class SettingsError(Exception):
    """Flags or environment that can't be used; one sentence for each mistake."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen, and which flag says so."""

    host: str
    port: int
    flag: str

    def __str__(self) -> str:
        return f"{self.host or '*'}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryConfig:
    """Everything the control plane needs to know before it reads its first YAML file."""

    config_dir: Path | None = None
    """None where objects come from another source than files; see `running`."""
    mesh_config: Path | None = None
    mesh_networks: Path | None = None
    ca_dir: Path
    """Created with a new root when it is empty: back it up, or every agent needs a new one."""
    tokens: TokenRule | None = None
    """None: only client certificates of our CA prove an identity."""
    http: Address | None = None
    grpc: Address | None = None
    secure_grpc: Address | None = None
    monitoring: Address | None = None
    allow_unsupported: bool = False
    """Fields that only Istio has are accepted without effect and logged, not refused."""
    believe_timestamps: bool = False
    """`creationTimestamp` counts between namespaces, and not only within one."""
    believe_plaintext: bool = False
    """Callers in plaintext are whom their nodes say, and get the configuration of any namespace;
    else they get what is exported to all. In neither case do they register or report health."""
    plaintext_secrets: bool = False
    """Callers in plaintext that are believed get the keys of gateways too."""
    scope_gateways: bool = False
    """A Gateway is for routers of its own namespace alone."""
    strict_namespaces: bool = False
    """A namespace governs its own hosts alone: what it says of others' holds for its own clients,
    and its Gateways are for its own routers."""
    key_set_guard: AddressGuard = field(default_factory=partial(AddressGuard, blocked=THIS_MACHINE))
    """Where key sets of RequestAuthentications are fetched: not at this machine's own addresses."""
    domain: str = "cluster.local"
    namespace: str = "istio-system"
    trust_domain: str = "cluster.local"
    """Unless mesh config says another."""
    default_lifetime: timedelta = timedelta(hours=24)
    max_lifetime: timedelta = timedelta(days=90)
    self_renewal_limit: timedelta = timedelta(days=90)
    """How long after its last token a workload can renew by the certificate that it has."""
    root_lifetime: timedelta = timedelta(days=3650)
    root_check_interval: timedelta = timedelta(hours=1)
    root_grace: float = 0.2
    """A root of our own is certified anew when less than this part of its lifetime is left."""
    ca_signers: int = 0
    """How many processes check requests and sign; 0: this process does it."""
    workload_grace_s: float = 10.0
    """How long a workload that a proxy has registered stays after the proxy has gone."""
    registration_limits: RegistrationLimits = LIMITS
    """How many workloads proxies may register, of one identity and in all."""
    debounce_after_s: float = 0.1
    debounce_max_s: float = 10.0
    shutdown_s: float = 10.0
    grpc_limits: ConnectionLimits = GRPC_LIMITS
    """Of each gRPC port."""
    http_limits: ConnectionLimits = HTTP_LIMITS
    """Of each HTTP port."""
    client_limits: ClientLimits = CLIENT_LIMITS
    """Of all xDS clients, those of one identity, and one stream."""
    streams: StreamSettings = STREAM_SETTINGS
    """How long connections live, and how many streams there may be."""
    serving_tls: ServingTls = SERVING_TLS
    """Of the secure port."""
    name: str = ""
    """What responses name as their control plane; empty: the host's name."""
    has_debug_pages: bool = True
    """Below /debug of the monitoring port, and over xDS."""
    debug_namespaces: frozenset[str] = frozenset()
    """Whose workloads may ask for all pages over xDS, as those of the root namespace may."""
    custom_hosts: tuple[str, ...] = ()
    """Further names on the certificate of the secure port."""
    signs_certificates: bool = True
    """Whether workloads get certificates here."""
    without_effect: tuple[SettingWithoutEffect, ...] = ()
    """The settings that were given and have no effect, to be logged."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The flags of the command line, as texts."""

    config_dir: Path | None
    """None: the usual one, if it is there."""
    mesh_config: Path | None
    mesh_networks: Path | None = None
    ca_dir: Path | None
    jwks_file: Path | None
    jwks_url: str
    jwt_issuer: str
    jwt_audiences: tuple[str, ...]
    http_addr: str
    grpc_addr: str
    secure_grpc_addr: str
    monitoring_addr: str
    domain: str
    shutdown_duration: str
    allow_unsupported: bool = False
    believe_timestamps: bool = False
    ca_signers: str = ""
    plaintext_secrets: bool = False
    key_set_networks: str = ""
    believe_plaintext: bool = False
    strict_namespaces: bool = False
    namespace: str = ""
    keepalive_interval: str = ""
    keepalive_timeout: str = ""
    max_connection_age: str = ""
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    passed: tuple[tuple[str, str], ...] = ()
    """Flags of Istio's control plane that are not honoured, and their values."""


def read_config(flags: Flags, environ: Mapping[str, str]) -> DiscoveryConfig:
    """Make settings of flags and environment; raises `SettingsError` with every mistake."""
    reader = _Reader(environ)
    without_effect, refused = settings_without_effect(flags.passed, environ)
    reader.problems += refused
    default = reader.duration("DEFAULT_WORKLOAD_CERT_TTL", 24 * 3600)
    longest = reader.duration("MAX_WORKLOAD_CERT_TTL", 90 * 86400)
    if default > longest:
        reader.problems.append(
            f"DEFAULT_WORKLOAD_CERT_TTL ({default:g}s) is above MAX_WORKLOAD_CERT_TTL "
            f"({longest:g}s): lower one or raise the other"
        )
    config = DiscoveryConfig(
        config_dir=flags.config_dir or reader.usual(_USUAL, os.path.isdir),
        mesh_config=flags.mesh_config or reader.usual(_USUAL / "mesh", os.path.isfile),
        mesh_networks=flags.mesh_networks or reader.usual(_USUAL / "meshNetworks", os.path.isfile),
        ca_dir=flags.ca_dir or Path(environ.get("ROOT_CA_DIR") or "./etc/cacerts"),
        tokens=read_tokens(flags, reader),
        http=reader.address("--http-addr", flags.http_addr),
        grpc=reader.address("--grpc-addr", flags.grpc_addr),
        secure_grpc=reader.address("--secure-grpc-addr", flags.secure_grpc_addr),
        monitoring=reader.address("--monitoring-addr", flags.monitoring_addr),
        allow_unsupported=flags.allow_unsupported or reader.flag(ALLOW_UNSUPPORTED),
        scope_gateways=reader.flag("PILOT_SCOPE_GATEWAY_TO_NAMESPACE"),
        believe_timestamps=flags.believe_timestamps or reader.flag(BELIEVE_TIMESTAMPS),
        believe_plaintext=flags.believe_plaintext or reader.flag(BELIEVE_PLAINTEXT),
        strict_namespaces=flags.strict_namespaces or reader.flag(STRICT_NAMESPACES),
        plaintext_secrets=flags.plaintext_secrets or reader.flag(PLAINTEXT_SECRETS),
        key_set_guard=reader.key_set_guard(flags.key_set_networks),
        domain=reader.domain("--domain", flags.domain),
        namespace=flags.namespace or environ.get("POD_NAMESPACE") or "istio-system",
        trust_domain=reader.trust_domain(environ.get("TRUST_DOMAIN") or "cluster.local"),
        default_lifetime=timedelta(seconds=default),
        max_lifetime=timedelta(seconds=longest),
        self_renewal_limit=timedelta(
            seconds=reader.duration("CERT_SELF_RENEWAL_LIMIT", 90 * 86400)
        ),
        root_lifetime=timedelta(
            seconds=reader.duration("CITADEL_SELF_SIGNED_CA_CERT_TTL", 3650 * 86400)
        ),
        root_check_interval=timedelta(
            seconds=reader.duration("CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL", 3600)
        ),
        root_grace=reader.percentage("CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE", 20),
        ca_signers=reader.signers(flags.ca_signers),
        workload_grace_s=reader.duration("PILOT_WORKLOAD_ENTRY_GRACE_PERIOD", 10.0, zero=True),
        registration_limits=reader.registrations("MESH_DISCOVERY_WORKLOADS"),
        debounce_after_s=reader.duration("PILOT_DEBOUNCE_AFTER", 0.1, zero=True),
        debounce_max_s=reader.duration("PILOT_DEBOUNCE_MAX", 10.0, zero=True),
        shutdown_s=reader.parsed_duration("--shutdown-duration", flags.shutdown_duration, 10.0),
        grpc_limits=reader.limits("MESH_DISCOVERY_GRPC", GRPC_LIMITS),
        http_limits=reader.limits("MESH_DISCOVERY_HTTP", HTTP_LIMITS),
        client_limits=reader.client_limits(),
        streams=read_stream_settings(flags, reader),
        serving_tls=read_serving_tls(flags, reader),
        name=reader.text("POD_NAME"),
        has_debug_pages=reader.flag("ENABLE_DEBUG_ON_HTTP", default=True),
        debug_namespaces=reader.names("DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES"),
        custom_hosts=reader.hosts("ISTIOD_CUSTOM_HOST"),
        signs_certificates=reader.flag("ENABLE_CA_SERVER", default=True),
        without_effect=without_effect,
    )
    if config.plaintext_secrets and not config.believe_plaintext:
        reader.problems.append(
            "--plaintext-secrets is given without --believe-plaintext: keys go over the plaintext "
            "port only to callers that are believed to be gateways; give both or leave it out"
        )
    if config.config_dir is None and (config.mesh_config or config.mesh_networks):
        reader.problems.append(
            "--mesh-config or --mesh-networks is given without --config-dir: they are read beside "
            f"the objects' files; give a directory, or make {_USUAL}"
        )
    if config.grpc is None and config.secure_grpc is None:
        reader.problems.append(
            "--grpc-addr and --secure-grpc-addr are both off: give an address to one of them"
        )
    if reader.problems:
        raise SettingsError(tuple(reader.problems))
    return config


class _Reader(Reader):
    def usual(self, path: Path, test: Callable[[Path], bool]) -> Path | None:
        """Return where Istio's control plane looks if no flag says so, if there is something."""
        return path if self.is_there(path, test, name=str(path)) else None

    def hosts(self, name: str) -> tuple[str, ...]:
        found = tuple(filter(None, (each.strip() for each in self.text(name).split(","))))
        for each in found:
            self.domain(name, each)
        return found

    def signers(self, given: str) -> int:
        """Read how many signer processes there are, from the flag or else the environment."""
        name = "--ca-signers" if given else CA_SIGNERS
        text = given or self.environ.get(CA_SIGNERS, "") or "0"
        is_number = text.isascii() and text.isdigit() and len(text) < len("1000")
        if not (is_number and int(text) <= _MOST_CA_SIGNERS):
            self.problems.append(
                f"{name} is {text!r}: expected a whole number from 0 to {_MOST_CA_SIGNERS}"
            )
            return 0
        return int(text)

    def key_set_guard(self, given: str) -> AddressGuard:
        """Read where key sets may be, from the flag or else the environment, and may not be."""
        name = "--key-set-networks" if given else KEY_SET_NETWORKS
        allowed = self._networks(name, given or self.environ.get(KEY_SET_NETWORKS, ""))
        blocked = self._networks(_BLOCKED_KEY_SETS, self.environ.get(_BLOCKED_KEY_SETS, ""))
        return AddressGuard(blocked=(*THIS_MACHINE, *blocked), allowed=allowed)

    def _networks(self, name: str, text: str) -> tuple[IpNetwork, ...]:
        try:
            return parse_networks(text)
        except NotANetwork as error:
            self.problems.append(f"{name}: {error}")
            return ()

    def limits(self, prefix: str, default: ConnectionLimits) -> ConnectionLimits:
        """Read how many connections a port takes, and how many of them from one address."""
        of_port, of_peer = f"{prefix}_CONNECTIONS", f"{prefix}_CONNECTIONS_PER_PEER"
        port = self.count(of_port, default.port)
        peer = self.count(of_peer, min(default.peer, max(1, port // 4)))
        if peer > port:
            self.problems.append(
                f"{of_peer} ({peer}) is above {of_port} ({port}): one caller could keep all others "
                "out; lower one or raise the other"
            )
        return default._replace(port=port, peer=peer)

    def registrations(self, prefix: str) -> RegistrationLimits:
        """Read how many workloads may be registered, and how many of them by one identity."""
        of_identity = f"{prefix}_PER_IDENTITY"
        all_of_them = self.count(prefix, LIMITS.in_all)
        own = self.count(of_identity, min(LIMITS.of_identity, all_of_them))
        if own > all_of_them:
            self.problems.append(
                f"{of_identity} ({own}) is above {prefix} ({all_of_them}): one identity could keep "
                "all others out; lower one or raise the other"
            )
        return replace(LIMITS, of_identity=own, in_all=all_of_them)

    def client_limits(self) -> ClientLimits:
        """Read the memory that xDS clients may take; what is smaller holds for its parts, too."""
        kept, pending = "MESH_DISCOVERY_XDS_KEPT_MIB", "MESH_DISCOVERY_XDS_PENDING_MIB"
        default = CLIENT_LIMITS
        most = self._mib(kept, default.max_kept_bytes)
        identity = self._part(f"{kept}_PER_IDENTITY", default.max_kept_bytes_per_identity, most)
        most_pending = self._mib(pending, default.max_pending_write_bytes)
        return ClientLimits(
            max_kept_bytes=most,
            max_kept_bytes_per_identity=identity,
            max_kept_bytes_per_stream=self._part(
                f"{kept}_PER_STREAM", default.max_kept_bytes_per_stream, identity
            ),
            max_pending_write_bytes=most_pending,
            max_pending_write_bytes_per_identity=self._part(
                f"{pending}_PER_IDENTITY",
                default.max_pending_write_bytes_per_identity,
                most_pending,
            ),
        )

    def _part(self, name: str, default: int, whole: int) -> int:
        size = self._mib(name, min(default, whole))
        if size > whole:
            self.problems.append(
                f"{name} ({size >> 20}) is above the {whole >> 20} MiB that it is a part of: lower "
                "one or raise the other"
            )
        return size

    def _mib(self, name: str, default: int) -> int:
        return self.count(name, default >> 20) << 20

    def address(self, flag: str, text: str) -> Address | None:
        if not text:
            return None
        try:
            host, port = split_host_port(text)
        except ValueError:
            self.problems.append(f"{flag} is {text!r}: expected host:port or :port")
            return None
        return Address(host=host, port=port, flag=flag)

    def domain(self, name: str, text: str) -> str:
        if not is_host(text) or text != text.lower():
            self.problems.append(f"{name} is {text!r}: expected a lower-case domain name")
        return text

    def trust_domain(self, name: str) -> str:
        try:
            return checked_trust_domain(name)
        except InvalidSpiffeId as error:
            self.problems.append(f"TRUST_DOMAIN: {error}")
            return name
