"""Kubernetes' Secret: the certificates, keys and roots of gateways.

A Secret holds private keys: its values are in no message, `repr` or page. Secrets of other programs
pass; in one of type kubernetes.io/tls, a wrong certificate is a mistake.

Source: Kubernetes' API, v1, and the names of values in Istio's `credentialName`.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from istio_config.kinds._extras import of_extra
from istio_config.kinds.fields import Unchecked
from istio_config.kinds.kind import Body, Kind
from istio_config.kinds.kubernetes._kubernetes_fields import KubernetesFields
from istio_config.kinds.metadata import Metadata
from mesh_configfile.shapes import Finding

TLS = "kubernetes.io/tls"
_PAIRS = (("tls.crt", "tls.key"), ("cert", "key"))
_ROOTS = ("ca.crt", "cacert")
_REVOCATIONS = ("ca.crl", "crl")
_STAPLE = "tls.ocsp-staple"
_DOCKER = "kubernetes.io/dockerconfigjson"
_DOCKER_CONFIG = ".dockerconfigjson"


class SecretFields(KubernetesFields, frozen=True, dict=True):
    """The fields of a Secret."""

    # Unchecked: a message about a value of a wrong type would show a part of it.
    data: Unchecked = None
    string_data: Unchecked = None
    type: str = "Opaque"

    def __repr__(self) -> str:
        """Return the names of the values, never a value."""
        return f"SecretFields(type={self.type!r}, keys={sorted(self.values)})"

    @cached_property
    def values(self) -> Mapping[str, bytes]:
        """The values that can be read, by their names."""
        found: dict[str, bytes] = {}
        for name, value in _mapping(self.data).items():
            if (decoded := _decoded(value)) is not None:
                found[name] = decoded
        for name, value in _mapping(self.string_data).items():
            if isinstance(value, str):
                found[name] = value.encode()
        return found

    @property
    def pair(self) -> tuple[bytes, bytes] | None:
        """The certificate chain and its key, PEM."""
        for certificate, key in _PAIRS:
            if self.values.get(certificate) and self.values.get(key):
                return self.values[certificate], self.values[key]
        return None

    @property
    def roots(self) -> bytes:
        """The certificates of authorities, PEM; empty: none."""
        return _first(self.values, _ROOTS)

    @property
    def revocations(self) -> bytes:
        """The lists of revoked certificates, PEM; empty: none."""
        return _first(self.values, _REVOCATIONS)

    @property
    def docker_config(self) -> str:
        """The credentials for registries, in Docker's JSON; empty: it is of another type."""
        if self.type != _DOCKER:
            return ""
        return self.values.get(_DOCKER_CONFIG, b"").decode(errors="replace")

    @property
    def staple(self) -> bytes:
        """The answer of OCSP for the certificate, DER; empty: none."""
        return self.values.get(_STAPLE, b"")


def _first(values: Mapping[str, bytes], names: tuple[str, ...]) -> bytes:
    return next((values[name] for name in names if values.get(name)), b"")


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _decoded(value: object) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def _mistakes(spec: SecretFields, _metadata: Metadata) -> Iterator[Finding]:
    for field, values in (("data", spec.data), ("stringData", spec.string_data)):
        if values is not None and not isinstance(values, dict):
            yield (field,), "expected a mapping"
    for name, value in _mapping(spec.data).items():
        if _decoded(value) is None:
            yield ("data", name), "is not base64; plain text belongs into stringData"
    for name, value in _mapping(spec.string_data).items():
        if not isinstance(value, str):
            yield ("stringData", name), "expected text; put it in quotes"
    if spec.type == TLS:
        yield from _content_mistakes(spec)
        for name in _PAIRS[0]:
            if not spec.values.get(name):
                yield ("data", name), f"is missing in a Secret of type {TLS}"


def _warnings(spec: SecretFields, _metadata: Metadata) -> Iterator[Finding]:
    with of_extra("keys"):
        from istio_config.kinds.kubernetes.key_material import refused_key, wrong_pair

    if spec.type != TLS:
        yield from _content_mistakes(spec)
    for certificate, key in _PAIRS:
        chain, private = spec.values.get(certificate), spec.values.get(key)
        if not chain or not private or wrong_pair(chain, private) is not None:
            continue
        # A warning, as the key is valid, and perhaps for another program than Envoy.
        if (refused := refused_key(private)) is not None:
            yield ("data", key), refused


def _content_mistakes(spec: SecretFields) -> Iterator[Finding]:
    with of_extra("keys"):
        from istio_config.kinds.kubernetes.key_material import (
            wrong_pair,
            wrong_revocations,
            wrong_roots,
            wrong_staple,
        )

    for certificate, key in _PAIRS:
        chain, private = spec.values.get(certificate), spec.values.get(key)
        if not chain or not private:
            continue
        if (wrong := wrong_pair(chain, private)) is not None:
            at_key, message = wrong
            yield ("data", key if at_key else certificate), message
        elif spec.staple and (wrong_answer := wrong_staple(chain, spec.staple)) is not None:
            yield ("data", _STAPLE), wrong_answer
    checks: list[tuple[str, Callable[[bytes], str | None]]]
    checks = [(name, wrong_roots) for name in _ROOTS]
    if spec.roots:
        checks += [(name, wrong_revocations) for name in _REVOCATIONS]
    for name, find in checks:
        value = spec.values.get(name)
        if value and (wrong_value := find(value)) is not None:
            yield ("data", name), wrong_value


SECRET = Kind(
    name="Secret",
    group="",
    versions=("v1",),
    spec=SecretFields,
    body=Body.DOCUMENT,
    validate=_mistakes,
    warn=_warnings,
    stops_itself=True,
)
