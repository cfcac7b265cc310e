"""The TLS of a client's connections to a service."""

from enum import StrEnum

from istio_config.kinds.fields import SpecFields


class ClientTlsMode(StrEnum):
    """Whether connections are encrypted, and with whose certificates."""

    DISABLE = "DISABLE"
    SIMPLE = "SIMPLE"
    MUTUAL = "MUTUAL"
    ISTIO_MUTUAL = "ISTIO_MUTUAL"


class ClientTls(SpecFields, frozen=True):
    """The TLS of connections to a service; files are on the machine of the proxy."""

    mode: ClientTlsMode = ClientTlsMode.DISABLE
    client_certificate: str = ""
    private_key: str = ""
    ca_certificates: str = ""
    credential_name: str = ""
    subject_alt_names: tuple[str, ...] = ()
    sni: str = ""
    insecure_skip_verify: bool | None = None
    ca_crl: str = ""
