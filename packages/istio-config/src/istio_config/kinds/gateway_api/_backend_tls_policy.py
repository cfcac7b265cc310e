"""BackendTLSPolicy: the TLS that clients of a service speak to it.

Source: the Gateway API, v1; what has no effect is as in Istio.
"""

import re
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from istio_config.kinds.fields import Labels, SpecFields, Text
from istio_config.kinds.gateway_api._names import GROUP, wrong_hostname, wrong_section_name
from istio_config.kinds.gateway_api._references import LocalReference, local_reference_mistakes
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

SYSTEM = "System"
"""The authorities that the proxy's own system trusts."""
IGNORED = "istio.io/ignore-policy-attachment"
"""Istio's annotation of a policy that is for other implementations alone."""


class PolicyTarget(SpecFields, frozen=True):
    """A Service or a ServiceEntry of the policy's namespace, or one port of it by its name."""

    group: str
    kind: Text
    name: Text
    section_name: Text | None = None


class SubjectAltNameType(StrEnum):
    """The sorts of names in certificates."""

    HOSTNAME = "Hostname"
    URI = "URI"


class SubjectAltName(SpecFields, frozen=True):
    """A name, one of which the certificate of the backend must have."""

    type: SubjectAltNameType
    hostname: str = ""
    uri: str = ""

    @property
    def value(self) -> str:
        """The name itself."""
        return self.hostname or self.uri


class BackendValidation(SpecFields, frozen=True):
    """How the certificate of the backend is validated."""

    hostname: Text
    """The SNI, and the name in the certificate unless there are others."""
    ca_certificate_refs: tuple[LocalReference, ...] = ()
    well_known_ca_certificates: str = msgspec.field(name="wellKnownCACertificates", default="")
    subject_alt_names: tuple[SubjectAltName, ...] = ()


class BackendTlsPolicySpec(SpecFields, frozen=True):
    """The TLS of connections to some backends."""

    target_refs: tuple[PolicyTarget, ...]
    validation: BackendValidation
    options: Labels = msgspec.field(default_factory=dict)


_MOST_TARGETS = 16
_MOST_ROOTS = 8
_MOST_NAMES = 5
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


def _mistakes(spec: BackendTlsPolicySpec, _metadata: Metadata) -> Iterator[Finding]:
    if not 1 <= len(spec.target_refs) <= _MOST_TARGETS:
        yield (
            ("targetRefs",),
            f"must have 1 to {_MOST_TARGETS} entries, it has {len(spec.target_refs)}",
        )
    seen: dict[tuple[str, str, str], set[str | None]] = {}
    for index, each in enumerate(spec.target_refs):
        path: FieldPath = ("targetRefs", index)
        if each.section_name is not None and (text := wrong_section_name(each.section_name)):
            yield (*path, "sectionName"), text
        sections = seen.setdefault((each.group, each.kind, each.name), set())
        if each.section_name in sections:
            yield path, f"the target {each.name} is given twice in the same way"
        elif sections and None in (sections | {each.section_name}):
            yield path, f"the target {each.name} is given twice: each needs a sectionName"
        sections.add(each.section_name)
    yield from _validation_mistakes(spec.validation)


def _validation_mistakes(validation: BackendValidation) -> Iterator[Finding]:
    path: FieldPath = ("validation",)
    if text := wrong_hostname(validation.hostname, allow_wildcard=False):
        yield (*path, "hostname"), text
    refs, known = validation.ca_certificate_refs, validation.well_known_ca_certificates
    if refs and known:
        yield path, "has caCertificateRefs and wellKnownCACertificates: keep one"
    elif not refs and not known:
        yield path, f"needs caCertificateRefs, or wellKnownCACertificates: {SYSTEM}"
    if known not in ("", SYSTEM):
        yield (
            (*path, "wellKnownCACertificates"),
            f'"{known}" is not known here; known: {SYSTEM}',
        )
    if len(refs) > _MOST_ROOTS:
        yield (*path, "caCertificateRefs"), f"has {len(refs)} entries; {_MOST_ROOTS} are allowed"
    for index, each in enumerate(refs):
        yield from local_reference_mistakes(each, (*path, "caCertificateRefs", index))
    names = validation.subject_alt_names
    if len(names) > _MOST_NAMES:
        yield (*path, "subjectAltNames"), f"has {len(names)} entries; {_MOST_NAMES} are allowed"
    for index, name in enumerate(names):
        yield from _name_mistakes(name, (*path, "subjectAltNames", index))


def _name_mistakes(name: SubjectAltName, path: FieldPath) -> Iterator[Finding]:
    if name.type is SubjectAltNameType.HOSTNAME:
        if name.uri:
            yield (*path, "uri"), "can't stand in a name of type Hostname"
        if text := wrong_hostname(name.hostname):
            yield (*path, "hostname"), text
    else:
        if name.hostname:
            yield (*path, "hostname"), "can't stand in a name of type URI"
        if not _URI.fullmatch(name.uri):
            yield (*path, "uri"), f'"{name.uri}" is not a URI such as spiffe://example.com/shop'


def _warnings(spec: BackendTlsPolicySpec, metadata: Metadata) -> Iterator[Finding]:
    if metadata.annotations.get(IGNORED, "").lower() == "true":
        yield (), f"has no effect: the annotation {IGNORED} is true"
    if spec.options:
        yield ("options",), "has no effect, as in Istio"
    if len(spec.validation.ca_certificate_refs) > 1:
        yield ("validation", "caCertificateRefs", 1), "has no effect, as in Istio: the first counts"


BACKEND_TLS_POLICY = Kind(
    name="BackendTLSPolicy",
    group=GROUP,
    versions=("v1", "v1alpha3"),
    spec=BackendTlsPolicySpec,
    validate=_mistakes,
    warn=_warnings,
)
