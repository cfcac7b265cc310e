"""How the agent connects to its control plane: addresses, roots, token and client certificate."""

from datetime import timedelta
from pathlib import Path

import certclient
import xds_proxy
from istio_settings import ProxyConfig, Settings
from mesh_agent.config._grpc import GRPC_STREAMS
from mesh_agent.config._sockets import xds_socket
from mesh_identity import SYSTEM, SystemRoots

_TOKEN = "./var/run/secrets/tokens/istio-token"  # noqa: S105 - a path
_ROOT_CERTIFICATE = "./var/run/secrets/istio/root-cert.pem"
_PROVIDER = "PILOT_CERT_PROVIDER"
_ROOTS_OF_PROVIDERS = {
    "custom": "./etc/certs/root-cert.pem",
    "kubernetes": "./var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
}
_PROVIDERS = ("istiod", *_ROOTS_OF_PROVIDERS, "none")
_SEND_TIMEOUT = timedelta(seconds=60)
_LEARNED_ROOTS = "learned-roots.json"
_SERVER_NAME = "ISTIOD_SAN"
_CONTROL_PLANE_NAME = "istiod.istio-system.svc"
_TRIM_MEMORY_AFTER_S = 10.0
_FURTHER = "MESH_AGENT_FURTHER_CONTROL_PLANES"
_ON_DISCONNECT = "MESH_AGENT_XDS_ON_DISCONNECT"


def authority_config(settings: Settings, proxy: ProxyConfig) -> certclient.IstioCaConfig:
    """Return how the authority that signs the workload certificate is reached."""
    address = settings.text("CA_ADDR", proxy.discovery_address)
    plaintext = address.endswith(":15010")
    if ".googleapis.com" in address:
        settings.problems.append(
            f"CA_ADDR is {address!r}, a service of Google's, whose protocol the agent does not "
            "speak: name an authority that speaks Istio's protocol"
        )
    chain, key = _client_certificate(settings)
    return certclient.IstioCaConfig(
        address=address,
        server_name=server_name(settings, address),
        server_name_setting=_SERVER_NAME,
        root_certificate=None if plaintext else _root_certificate(settings, "CA_ROOT_CA"),
        token_path=settings.under(_TOKEN),
        client_certificate_path=chain,
        client_key_path=key,
        cluster_id=settings.text("ISTIO_META_CLUSTER_ID"),
        cert_signer=settings.text("ISTIO_META_CERT_SIGNER"),
        headers=settings.prefixed("CA_HEADER_"),
    )


def relay_config(
    settings: Settings, proxy: ProxyConfig, files: certclient.FilesConfig | None
) -> xds_proxy.RelayConfig:
    """Return how the relay reaches its control plane. files: the mounted certificate, if any."""
    cluster_id = settings.text("ISTIO_META_CLUSTER_ID")
    plaintext = proxy.plaintext_control_plane or proxy.discovery_address.endswith(":15010")
    chain, key = _client_certificate(settings)
    if files is not None:
        chain, key = files.certificate_path, files.key_path
    envoy_disabled = settings.flag("DISABLE_ENVOY")
    return xds_proxy.RelayConfig(
        socket_path=xds_socket(settings, proxy),
        send_timeout_s=_send_timeout_s(settings),
        on_disconnect=_on_disconnect(settings),
        trim_memory_after_s=_TRIM_MEMORY_AFTER_S,
        # As with the certificate's files: in a pod the application is another user.
        socket_mode=0o666 if envoy_disabled and settings.in_kubernetes else 0o600,
        max_streams=GRPC_STREAMS if envoy_disabled else xds_proxy.MAX_STREAMS,
        upstream=xds_proxy.UpstreamConfig(
            address=proxy.discovery_address,
            further_addresses=_further_addresses(settings, proxy, plaintext=plaintext),
            root_certificate=(
                None if plaintext else _root_certificate(settings, "XDS_ROOT_CA", files)
            ),
            server_name=server_name(settings, proxy.discovery_address),
            server_name_setting=_SERVER_NAME,
            token_path=None if plaintext or files is not None else _token(settings),
            client_certificate_path=chain,
            client_key_path=key,
            metadata=(
                *((("clusterid", cluster_id),) if cluster_id else ()),
                *settings.prefixed("XDS_HEADER_"),
            ),
        ),
    )


def _further_addresses(
    settings: Settings, proxy: ProxyConfig, *, plaintext: bool
) -> tuple[xds_proxy.FurtherAddress, ...]:
    """Return the control planes that are used while those before them fail."""
    listed = [each.strip() for each in settings.text(_FURTHER).split(",") if each.strip()]
    found: list[xds_proxy.FurtherAddress] = []
    known = {proxy.discovery_address}
    for address in listed:
        fault = xds_proxy.address_fault(address)
        if fault is None and address in known:
            fault = f"{address!r} is there twice, or is discoveryAddress"
        if fault is None and not plaintext and address.endswith(":15010"):
            fault = f"{address!r} is Istio's plaintext port, and discoveryAddress is served by TLS"
        if fault is not None:
            settings.problems.append(
                f"{_FURTHER}: {fault}: it must list further control planes as HOST:PORT, with "
                "commas between them"
            )
            continue
        known.add(address)
        found.append(xds_proxy.FurtherAddress(address, server_name(settings, address)))
    return tuple(found)


def _on_disconnect(settings: Settings) -> xds_proxy.OnDisconnect:
    said = settings.text(_ON_DISCONNECT, xds_proxy.OnDisconnect.RECONNECT.value)
    try:
        return xds_proxy.OnDisconnect(said)
    except ValueError:
        known = " or ".join(each.value for each in xds_proxy.OnDisconnect)
        settings.problems.append(f"{_ON_DISCONNECT} is {said!r}: it must be {known}")
        return xds_proxy.OnDisconnect.RECONNECT


def _send_timeout_s(settings: Settings) -> float | None:
    timeout = settings.duration("PILOT_XDS_SEND_TIMEOUT", _SEND_TIMEOUT)
    return timeout.total_seconds() or None


def learned_roots_file(
    authority: certclient.IstioCaConfig | None, relay: xds_proxy.RelayConfig
) -> Path | None:
    """Return the file that keeps learned roots; None if the agent is to learn none.

    Only one root file for both connections says that both are the mesh's own. Two files, or the
    machine's roots, are an explicit choice of the operator's, and nothing is added to them.
    """
    source = relay.upstream.root_certificate
    if authority is None or not isinstance(source, Path) or authority.root_certificate != source:
        return None
    return relay.socket_path.parent / _LEARNED_ROOTS


def _client_certificate(settings: Settings) -> tuple[Path, Path] | tuple[None, None]:
    """Return the certificate and key that the machine was provisioned with, if any."""
    directory = settings.text("PROV_CERT")
    if not directory:
        return None, None
    return settings.under(directory) / "cert-chain.pem", settings.under(directory) / "key.pem"


def _token(settings: Settings) -> Path | None:
    """Return the token file; None where a provisioned certificate is used instead."""
    path = settings.under(_TOKEN)
    if settings.is_file(path):
        return path
    chain, _ = _client_certificate(settings)
    if chain is None:
        settings.problems.append(
            f"token file {path} {settings.absence(path)}; the agent proves with it who it is: "
            "mount the workload's token there, or name a directory with a certificate in PROV_CERT"
        )
    elif not settings.is_file(chain):
        settings.problems.append(
            f"neither token file {path} nor certificate {chain} exists; the agent proves with "
            "one of them who it is: mount one of the two"
        )
    return None


def _root_certificate(
    settings: Settings, variable: str, files: certclient.FilesConfig | None = None
) -> Path | SystemRoots:
    """Return the file of roots, or `SYSTEM` for the machine's roots."""
    if settings.text(variable) == "SYSTEM":
        _check_system_roots(settings)
        return SYSTEM
    provider = _root_provider(settings)
    provisioned = settings.text("PROV_CERT")
    default = f"{provisioned}/root-cert.pem" if provisioned else _ROOT_CERTIFICATE
    default = _ROOTS_OF_PROVIDERS.get(provider, default)
    path = settings.path(variable, default)
    if files is not None and not settings.text(variable):
        path = files.root_path
    elif provider == "none" and not settings.text(variable):
        settings.problems.append(
            f"PILOT_CERT_PROVIDER is none, so that there is no root to check the control plane "
            f"against: name one in {variable}"
        )
        return path
    if not settings.is_file(path):
        settings.problems.append(
            f"root certificate {path} {settings.absence(path)}; the control plane is checked "
            "against it: mount it there or name another file in XDS_ROOT_CA and CA_ROOT_CA"
        )
    return path


def _root_provider(settings: Settings) -> str:
    provider = settings.text(_PROVIDER, "istiod")
    if provider not in _PROVIDERS and not provider.startswith("k8s.io/"):
        settings.problems.append(
            f"{_PROVIDER} is {provider!r}, it must be one of {', '.join(_PROVIDERS)} or k8s.io/..."
        )
    return provider


def _check_system_roots(settings: Settings) -> None:
    if not settings.text("SSL_CERT_FILE"):
        return
    path = settings.path("SSL_CERT_FILE", "")
    if not settings.is_file(path):
        settings.problems.append(
            f"SSL_CERT_FILE: root certificate {path} {settings.absence(path)}; the control plane "
            "is checked against it as XDS_ROOT_CA or CA_ROOT_CA is SYSTEM: name the machine's roots"
        )


def server_name(settings: Settings, address: str) -> str:
    """Return the name that the control plane's certificate at this address must bear."""
    host = address.rpartition(":")[0].strip("[]")
    if "localhost" in host:
        host = _CONTROL_PLANE_NAME
    return settings.text(_SERVER_NAME, host)
