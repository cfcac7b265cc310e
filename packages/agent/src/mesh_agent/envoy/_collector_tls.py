"""TLS towards a collector. Source: ClientTLSSettings of istio.networking.v1alpha3."""

from collections.abc import Mapping
from pathlib import Path

from envoy_supervisor import JSON, ClientTls, MeshTls, Target
from istio_settings import Fields, Settings, is_address

_MODES: Mapping[JSON, str] = {0: "DISABLE", 1: "SIMPLE", 2: "MUTUAL", 3: "ISTIO_MUTUAL"}
_FIELDS = (
    *("mode", "caCertificates", "clientCertificate", "privateKey", "sni", "subjectAltNames"),
    *("insecureSkipVerify", "credentialName", "caCrl"),
)


def client_tls(
    service: Fields, target: Target | None, settings: Settings
) -> ClientTls | MeshTls | None:
    """Return the `tlsSettings` of a collector, None for none; mistakes go to the problems."""
    fields = service.part("tlsSettings")
    if fields is None:
        return None
    fields.expect_only(*_FIELDS)
    given = fields.value("mode")
    mode = given if isinstance(given, bool | list | dict) else _MODES.get(given, given)
    if mode not in (None, "DISABLE"):
        _refuse_what_is_not_carried(fields)
    match "DISABLE" if mode is None else mode:
        case "DISABLE":
            return None
        case "SIMPLE" | "MUTUAL" as kind:
            return _tls_from_files(fields, target, settings, mutual=kind == "MUTUAL")
        case "ISTIO_MUTUAL":
            identities = fields.texts("subjectAltNames")
            if not identities:
                fields.complain(
                    "subjectAltNames",
                    "is missing: name who the collector may be, such as "
                    "spiffe://cluster.local/ns/monitoring/sa/collector",
                )
            return MeshTls(identities=identities, server_name=fields.text("sni") or None)
        case _:
            fields.complain("mode", f"is {given!r}, it must be one of {', '.join(_MODES.values())}")
            return None


def _refuse_what_is_not_carried(fields: Fields) -> None:
    if fields.flag("insecureSkipVerify"):
        fields.complain(
            "insecureSkipVerify",
            "is true, but the collector is always verified: set caCertificates",
        )
    if fields.text("credentialName"):
        fields.complain("credentialName", "is only for gateways, name files instead")
    if fields.text("caCrl"):
        fields.complain("caCrl", "is not supported towards a collector")


def _tls_from_files(
    fields: Fields, target: Target | None, settings: Settings, *, mutual: bool
) -> ClientTls | None:
    names = fields.texts("subjectAltNames")
    sni = fields.text("sni")
    server_name = sni or (names[0] if names else target.host if target else "")
    if any(name != server_name for name in names):
        fields.complain(
            "subjectAltNames",
            f"is {list(names)!r}, it must be the one name that sni says: {server_name!r}",
        )
    elif is_address(server_name):
        fields.complain("sni", f"is missing: {server_name} is no name to be in a certificate")
    roots = _file(fields, settings, "caCertificates")
    certificate = _file(fields, settings, "clientCertificate") if mutual else None
    private_key = _file(fields, settings, "privateKey") if mutual else None
    if roots is None or (mutual and (certificate is None or private_key is None)):
        return None
    return ClientTls(
        server_name=server_name, roots=roots, certificate=certificate, private_key=private_key
    )


def _file(fields: Fields, settings: Settings, key: str) -> Path | None:
    text = fields.required_text(key)
    if not text:
        return None
    path = settings.under(text)
    if not settings.is_file(path):
        fields.complain(key, f"is {text!r}, which is not a file")
        return None
    return path
