"""Mistakes of the TLS settings of a Sidecar's ingress listener."""

from collections.abc import Iterator

from istio_config.kinds.gateway import ServerTlsSettings, TlsMode, tls_mistakes
from istio_config.kinds.sidecar._spec import SidecarPort
from mesh_configfile.shapes import Finding

_NOT_HERE = (TlsMode.ISTIO_MUTUAL, TlsMode.AUTO_PASSTHROUGH)


def ingress_tls_mistakes(tls: ServerTlsSettings, port: SidecarPort | None) -> Iterator[Finding]:
    """Yield what is wrong with the settings; paths start below them."""
    if tls.mode in _NOT_HERE:
        yield ("mode",), f"{tls.mode} is not for Sidecars; use SIMPLE or MUTUAL"
    if tls.https_redirect:
        yield ("httpsRedirect",), "is for gateways only"
    if tls.credential_name:
        yield ("credentialName",), "is for gateways only; name files at the proxy instead"
    if tls.credential_names:
        yield ("credentialNames",), "is for gateways only; name files at the proxy instead"
    if tls.subject_alt_names:
        yield ("subjectAltNames",), "is for gateways only"
    if port is not None and not port.known_protocol.is_tls:
        yield (), "needs a port with the protocol HTTPS or TLS"
    if tls.mode not in _NOT_HERE and not tls.credentials:
        yield from tls_mistakes(tls)
