"""The TLS of a client's connections to a service.

Source: Istio's API, networking/v1, and its validation.
"""

from collections.abc import Iterator
from enum import StrEnum

from istio_config.kinds.fields import SpecFields
from mesh_configfile.shapes import Finding


class ClientTlsMode(StrEnum):
    """Whether connections are encrypted, and with whose certificates."""

    DISABLE = "DISABLE"
    SIMPLE = "SIMPLE"
    MUTUAL = "MUTUAL"
    ISTIO_MUTUAL = "ISTIO_MUTUAL"


class ClientTls(SpecFields, frozen=True):
    """The TLS of connections to a service; files are paths at the proxy."""

    mode: ClientTlsMode = ClientTlsMode.DISABLE
    client_certificate: str = ""
    private_key: str = ""
    ca_certificates: str = ""
    credential_name: str = ""
    subject_alt_names: tuple[str, ...] = ()
    sni: str = ""
    insecure_skip_verify: bool | None = None
    ca_crl: str = ""


_BY_CREDENTIAL = (ClientTlsMode.SIMPLE, ClientTlsMode.MUTUAL)


def client_tls_mistakes(tls: ClientTls) -> Iterator[Finding]:
    """Yield what is wrong with the settings; paths start below them."""
    files = {
        "clientCertificate": tls.client_certificate,
        "privateKey": tls.private_key,
        "caCertificates": tls.ca_certificates,
    }
    if tls.mode in (ClientTlsMode.SIMPLE, ClientTlsMode.MUTUAL) and tls.credential_name:
        for name, file in files.items():
            if file:
                yield (name,), "can't stand beside credentialName: keep one of the two"
    elif tls.mode is ClientTlsMode.MUTUAL:
        for name in ("clientCertificate", "privateKey"):
            if not files[name]:
                yield (), f"mode MUTUAL needs the field {name}"
    if tls.insecure_skip_verify:
        checked = {
            "caCertificates": tls.ca_certificates,
            "subjectAltNames": tls.subject_alt_names,
            "credentialName": tls.credential_name if tls.mode is ClientTlsMode.SIMPLE else "",
        }
        for name, given in checked.items():
            if given:
                yield (name,), "can't stand beside insecureSkipVerify, which checks nothing"
    for index, name in enumerate(tls.subject_alt_names):
        if not name:
            yield ("subjectAltNames", index), "must not be empty"


def client_tls_warnings(tls: ClientTls, *, by_selector: bool) -> Iterator[Finding]:
    """Yield the settings that have no effect; paths start below them.

    by_selector: whether the rule chooses clients by their labels. Without, it is for sidecars too,
    and those are sent no Secret that `credentialName` names, as in Istio.
    """
    files: dict[str, object] = {
        "clientCertificate": tls.client_certificate,
        "privateKey": tls.private_key,
    }
    all_credentials = files | {
        "caCertificates": tls.ca_certificates,
        "credentialName": tls.credential_name,
    }
    if tls.mode is ClientTlsMode.ISTIO_MUTUAL:
        yield from _unused_warnings(
            all_credentials, "with ISTIO_MUTUAL, which has the mesh's certificates"
        )
    elif tls.mode is ClientTlsMode.DISABLE:
        names: dict[str, object] = {"sni": tls.sni, "subjectAltNames": tls.subject_alt_names}
        yield from _unused_warnings(all_credentials | names, "with DISABLE, which is plaintext")
    elif tls.mode is ClientTlsMode.SIMPLE:
        yield from _unused_warnings(
            files, "with SIMPLE, which shows no certificate of the client's"
        )
    if tls.credential_name and not by_selector and tls.mode in _BY_CREDENTIAL:
        yield (
            ("credentialName",),
            (
                "is for gateways: sidecars can't reach the service, unless the rule has a "
                "workloadSelector or files take its place"
            ),
        )


def _unused_warnings(fields: dict[str, object], reason: str) -> Iterator[Finding]:
    for name, given in fields.items():
        if given:
            yield (name,), f"has no effect {reason}"
