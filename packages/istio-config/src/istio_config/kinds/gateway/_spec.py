"""The fields of a Gateway.

Source: Istio's API, networking/v1.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.fields import Labels, PortNumber, SpecFields, Text

ServerPortNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65535)]
"""Zero is for servers that are bound to a Unix socket."""


class TlsMode(StrEnum):
    """How a server treats TLS."""

    PASSTHROUGH = "PASSTHROUGH"
    SIMPLE = "SIMPLE"
    MUTUAL = "MUTUAL"
    AUTO_PASSTHROUGH = "AUTO_PASSTHROUGH"
    ISTIO_MUTUAL = "ISTIO_MUTUAL"
    OPTIONAL_MUTUAL = "OPTIONAL_MUTUAL"

    @property
    def terminates(self) -> bool:
        """Whether the router itself is the server of the TLS handshake."""
        return self not in (TlsMode.PASSTHROUGH, TlsMode.AUTO_PASSTHROUGH)

    @property
    def asks_for_client_certificates(self) -> bool:
        """Whether a client's certificate is validated by roots of the server's own settings."""
        return self in (TlsMode.MUTUAL, TlsMode.OPTIONAL_MUTUAL)


class TlsProtocol(StrEnum):
    """A version of TLS."""

    TLS_AUTO = "TLS_AUTO"
    TLSV1_0 = "TLSV1_0"
    TLSV1_1 = "TLSV1_1"
    TLSV1_2 = "TLSV1_2"
    TLSV1_3 = "TLSV1_3"


class ServerPort(SpecFields, frozen=True):
    """The port that clients connect to."""

    number: ServerPortNumber
    protocol: Text
    name: str = ""
    target_port: PortNumber | None = None


class ServerCertificate(SpecFields, frozen=True):
    """One of several certificates of a server, as files at the router."""

    server_certificate: str = ""
    private_key: str = ""
    ca_certificates: str = ""


class ServerTlsSettings(SpecFields, frozen=True):
    """The TLS settings of a server."""

    https_redirect: bool = False
    mode: TlsMode = TlsMode.PASSTHROUGH
    server_certificate: str = ""
    private_key: str = ""
    ca_certificates: str = ""
    ca_crl: str = ""
    credential_name: str = ""
    credential_names: tuple[Text, ...] = ()
    ca_cert_credential_name: str = ""
    tls_certificates: tuple[ServerCertificate, ...] = ()
    subject_alt_names: tuple[Text, ...] = ()
    verify_certificate_spki: tuple[Text, ...] = ()
    verify_certificate_hash: tuple[Text, ...] = ()
    min_protocol_version: TlsProtocol = TlsProtocol.TLS_AUTO
    max_protocol_version: TlsProtocol = TlsProtocol.TLS_AUTO
    cipher_suites: tuple[Text, ...] = ()
    insecure_skip_verify: bool = False

    @property
    def only_redirects(self) -> bool:
        """Whether nothing but `httpsRedirect` is set, as on plain HTTP servers."""
        return self == ServerTlsSettings(https_redirect=True)

    @property
    def credentials(self) -> tuple[str, ...]:
        """The names of the secrets that hold the server's certificates."""
        return self.credential_names or ((self.credential_name,) if self.credential_name else ())


class Server(SpecFields, frozen=True):
    """One port of a gateway, for some hosts."""

    port: ServerPort
    hosts: tuple[Text, ...] = ()
    bind: str = ""
    tls: ServerTlsSettings | None = None
    default_endpoint: str = ""
    name: str = ""


class GatewaySpec(SpecFields, frozen=True):
    """The servers of the routers that have these labels."""

    servers: tuple[Server, ...] = ()
    selector: Labels = msgspec.field(default_factory=dict)
