"""TLS of a whole Gateway: how certificates of clients are validated, and which one backends see.

Source: the Gateway API, v1; what has no effect is as in Istio.
"""

from collections.abc import Iterator
from enum import StrEnum

from istio_config.kinds.fields import PortNumber, SpecFields
from istio_config.kinds.gateway_api._references import ObjectReference, object_reference_mistakes
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class ValidationMode(StrEnum):
    """The clients that are accepted."""

    ALLOW_VALID_ONLY = "AllowValidOnly"
    ALLOW_INSECURE_FALLBACK = "AllowInsecureFallback"
    """All of them: what their certificates are worth is for the backends to say."""


class ClientValidation(SpecFields, frozen=True):
    """The roots that certificates of clients are validated with."""

    ca_certificate_refs: tuple[ObjectReference, ...]
    mode: ValidationMode = ValidationMode.ALLOW_VALID_ONLY


class ClientTls(SpecFields, frozen=True):
    """The TLS that clients speak; without validation they show no certificate."""

    validation: ClientValidation | None = None


class PortTls(SpecFields, frozen=True):
    """The TLS of the listeners of a port, instead of the default."""

    port: PortNumber
    tls: ClientTls


class FrontendTls(SpecFields, frozen=True):
    """The TLS of clients, for all ports or some."""

    default: ClientTls
    per_port: tuple[PortTls, ...] = ()

    def validation(self, port: int) -> ClientValidation | None:
        """Return how clients of a port are validated; None: not at all."""
        own = next((each.tls for each in self.per_port if each.port == port), self.default)
        return own.validation


class BackendTls(SpecFields, frozen=True):
    """The certificate that the gateway shows to backends."""

    client_certificate_ref: ObjectReference | None = None


class GatewayTls(SpecFields, frozen=True):
    """TLS of all listeners together."""

    backend: BackendTls | None = None
    frontend: FrontendTls | None = None


_MOST_ROOTS = 8


def gateway_tls_mistakes(tls: GatewayTls) -> Iterator[Finding]:
    """Yield what is wrong with the TLS of a Gateway; paths start below it."""
    if tls.backend is not None and (reference := tls.backend.client_certificate_ref) is not None:
        yield from object_reference_mistakes(reference, ("backend", "clientCertificateRef"))
    if tls.frontend is None:
        return
    yield from _validation_mistakes(tls.frontend.default, ("frontend", "default"))
    seen: set[int] = set()
    for index, each in enumerate(tls.frontend.per_port):
        path: FieldPath = ("frontend", "perPort", index)
        if each.port in seen:
            yield (*path, "port"), f"the port {each.port} is given twice"
        seen.add(each.port)
        yield from _validation_mistakes(each.tls, (*path, "tls"))


def _validation_mistakes(tls: ClientTls, path: FieldPath) -> Iterator[Finding]:
    if tls.validation is None:
        return
    here = (*path, "validation", "caCertificateRefs")
    references = tls.validation.ca_certificate_refs
    if not 1 <= len(references) <= _MOST_ROOTS:
        yield here, f"must have 1 to {_MOST_ROOTS} entries, it has {len(references)}"
    for index, each in enumerate(references):
        yield from object_reference_mistakes(each, (*here, index))


def gateway_tls_warnings(tls: GatewayTls) -> Iterator[Finding]:
    """Yield what is probably not meant in the TLS of a Gateway; paths start below it."""
    frontend = tls.frontend
    if frontend is not None:
        places: list[tuple[FieldPath, ClientTls]] = [(("default",), frontend.default)]
        places += [(("perPort", at, "tls"), each.tls) for at, each in enumerate(frontend.per_port)]
        for path, each in places:
            validation = each.validation
            if validation is not None and validation.mode is not ValidationMode.ALLOW_VALID_ONLY:
                yield (
                    ("frontend", *path, "validation", "mode"),
                    "lets every client in, with a certificate that is valid or not, or without one",
                )
    if tls.backend is not None and tls.backend.client_certificate_ref is not None:
        yield (
            ("backend", "clientCertificateRef"),
            (
                "has no effect, as in Istio: a DestinationRule with tls in mode MUTUAL and a "
                "credentialName has the certificate for a backend"
            ),
        )
