"""Istio's Gateway for a listener: its servers, and which routers open them."""

from collections.abc import Iterator, Sequence

from istio_config import ConfigObject
from istio_config.kinds.gateway import GatewaySpec as ServersSpec
from istio_config.kinds.gateway import Server, ServerPort, ServerTlsSettings
from istio_config.kinds.gateway import TlsMode as ServerTlsMode
from istio_config.kinds.gateway_api import HTTPS, TLS, TLS_TERMINATE_MODE, GatewaySpec
from mesh_model._gateways import OF_SERVICES, OWN_NAMESPACE
from mesh_model.gateway_api._hostnames import ANY
from mesh_model.gateway_api._listeners import BoundListener

NAME_LABEL = "gateway.networking.k8s.io/gateway-name"
"""The label of routers that says to which Gateway of their namespace they belong."""


def server_object(bound: BoundListener, hosts: Sequence[str], domain: str) -> ConfigObject:
    """Return Istio's Gateway for a listener: a server for each of these hosts, or for its own."""
    item, listener = bound.gateway, bound.listener
    annotations, selector = _routers(item, domain)
    servers = tuple(_server(bound, each) for each in hosts or (listener.hostname or ANY,))
    return ConfigObject(
        kind="Gateway",
        group="networking.istio.io",
        namespace=item.namespace,
        name=bound.name,
        spec=ServersSpec(servers=servers, selector=selector),
        labels=item.labels,
        annotations=annotations,
        created=item.created,
        origin=item.origin,
    )


def _server(bound: BoundListener, host: str) -> Server:
    listener = bound.listener
    return Server(
        port=ServerPort(number=listener.port, name="default", protocol=listener.protocol),
        hosts=(host,),
        tls=_tls(bound),
    )


def _tls(bound: BoundListener) -> ServerTlsSettings | None:
    listener = bound.listener
    if listener.protocol not in (HTTPS, TLS):
        return None
    if not listener.terminates:
        return ServerTlsSettings(mode=ServerTlsMode.PASSTHROUGH)
    options = listener.tls.options if listener.tls is not None else {}
    mode = ServerTlsMode(options.get(TLS_TERMINATE_MODE, "SIMPLE"))
    if mode is ServerTlsMode.ISTIO_MUTUAL:
        return ServerTlsSettings(mode=mode)
    if len(bound.credentials) == 1:
        return ServerTlsSettings(mode=mode, credential_name=bound.credentials[0])
    return ServerTlsSettings(mode=mode, credential_names=bound.credentials)


def _routers(item: ConfigObject, domain: str) -> tuple[tuple[tuple[str, str], ...], dict[str, str]]:
    """Return the annotations and the selector that choose the routers of a Gateway."""
    hosts = tuple(_service_hosts(item, domain))
    if hosts:
        return ((OF_SERVICES, ",".join(hosts)),), {}
    return (OWN_NAMESPACE,), {NAME_LABEL: item.name}


def _service_hosts(item: ConfigObject, domain: str) -> Iterator[str]:
    for each in item.spec.addresses if isinstance(item.spec, GatewaySpec) else ():
        if each.type == "Hostname" and each.value:
            in_full = "." in each.value
            yield each.value if in_full else f"{each.value}.{item.namespace}.svc.{domain}"
