"""The listeners of a Gateway: ports, certificates, and the routes that may attach.

Source: the Gateway API, v1.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from istio_config.kinds.fields import Labels, PortNumber, SpecFields, Text
from istio_config.kinds.gateway import CIPHERS
from istio_config.kinds.gateway_api._names import (
    GROUP,
    wrong_group,
    wrong_hostname,
    wrong_kind,
    wrong_section_name,
)
from istio_config.kinds.gateway_api._references import ObjectReference, object_reference_mistakes
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

HTTP, HTTPS, TLS, TCP, UDP = "HTTP", "HTTPS", "TLS", "TCP", "UDP"
HBONE = "HBONE"
"""Istio's protocol of connections inside others."""
PROTOCOLS = (HTTP, HTTPS, TLS, TCP, UDP)
TLS_TERMINATE_MODE = "gateway.istio.io/tls-terminate-mode"
"""Istio's option of a listener: how TLS ends (`_TERMINATE_MODES`)."""
TLS_CIPHER_SUITES = "gateway.istio.io/tls-cipher-suites"
"""Istio's option of a listener: its ciphers, separated by commas."""
ISTIO_SIMPLE = "ISTIO_SIMPLE"
"""The mode in which a listener shows the router's own certificate of the mesh."""


class TlsMode(StrEnum):
    """Where TLS ends: at the router, or behind it."""

    TERMINATE = "Terminate"
    PASSTHROUGH = "Passthrough"


class FrontendValidation(SpecFields, frozen=True):
    """The roots that certificates of clients are validated with."""

    ca_certificate_refs: tuple[ObjectReference, ...] = ()
    mode: str = ""


class ListenerTls(SpecFields, frozen=True):
    """TLS at a listener."""

    mode: TlsMode | None = None
    certificate_refs: tuple[ObjectReference, ...] = ()
    options: Labels = msgspec.field(default_factory=dict)
    frontend_validation: FrontendValidation | None = None


class From(StrEnum):
    """The namespaces whose routes may attach."""

    ALL = "All"
    SAME = "Same"
    SELECTOR = "Selector"
    NONE = "None"


class Operator(StrEnum):
    """A relation of a label to values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(SpecFields, frozen=True):
    """A condition on one label."""

    key: Text
    operator: Operator
    values: tuple[str, ...] = ()


class LabelSelector(SpecFields, frozen=True):
    """Conditions on labels, all of which must hold."""

    match_labels: Labels = msgspec.field(default_factory=dict)
    match_expressions: tuple[Requirement, ...] = ()


class RouteNamespaces(SpecFields, frozen=True):
    """The namespaces whose routes may attach, by their labels if so."""

    from_: From = From.SAME
    selector: LabelSelector | None = None


class RouteKind(SpecFields, frozen=True):
    """A kind of routes."""

    kind: Text
    group: str = GROUP


class AllowedRoutes(SpecFields, frozen=True):
    """The routes that may attach to a listener."""

    namespaces: RouteNamespaces = RouteNamespaces()
    kinds: tuple[RouteKind, ...] = ()
    """Empty: those that fit the listener's protocol."""


class Listener(SpecFields, frozen=True):
    """A port of the router, for one host name or all."""

    name: Text
    port: PortNumber
    protocol: Text
    hostname: str | None = None
    tls: ListenerTls | None = None
    allowed_routes: AllowedRoutes = AllowedRoutes()

    @property
    def terminates(self) -> bool:
        """Whether TLS ends at this listener."""
        if self.protocol not in (HTTPS, TLS):
            return False
        return self.tls is None or self.tls.mode is not TlsMode.PASSTHROUGH

    @property
    def opens_no_port(self) -> bool:
        """Whether it is of HTTPS and says nothing of TLS, so that it has no certificate to show."""
        return self.protocol == HTTPS and self.tls is None


_MOST_CERTIFICATES = 64
_PROTOCOL = re.compile(
    r"[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?|[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    r"(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]+"
)
_TERMINATE_MODES = ("SIMPLE", "MUTUAL", "OPTIONAL_MUTUAL", ISTIO_SIMPLE, "ISTIO_MUTUAL")
_INSTEAD = f"with {TLS_TERMINATE_MODE}: MUTUAL in tls.options, the Secret's ca.crt validates"


_MOST_LISTENERS = 64


def listeners_mistakes(listeners: Sequence[Listener]) -> Iterator[Finding]:
    """Yield what is wrong with the listeners of an object."""
    if not 1 <= len(listeners) <= _MOST_LISTENERS:
        yield (
            ("listeners",),
            f"must have 1 to {_MOST_LISTENERS} entries, it has {len(listeners)}",
        )
    names: set[str] = set()
    distinct: dict[tuple[int, str, str], str] = {}
    for index, each in enumerate(listeners):
        path: FieldPath = ("listeners", index)
        if text := wrong_section_name(each.name):
            yield (*path, "name"), text
        if each.name in names:
            yield (*path, "name"), f'the name "{each.name}" is given twice'
        names.add(each.name)
        key = each.port, each.protocol, each.hostname or ""
        other = distinct.setdefault(key, each.name)
        if other != each.name:
            yield (
                path,
                (
                    f"has the port, the protocol and the hostname of the listener {other}; "
                    "keep one, or give it another of the three"
                ),
            )
        yield from _listener_mistakes(each, path)


def _listener_mistakes(listener: Listener, path: FieldPath) -> Iterator[Finding]:
    protocol = listener.protocol
    if not _PROTOCOL.fullmatch(protocol) or len(protocol) > 255:
        yield (
            (*path, "protocol"),
            f'unknown protocol "{protocol}"; known: {", ".join(PROTOCOLS)}',
        )
    if listener.hostname:
        if text := wrong_hostname(listener.hostname):
            yield (*path, "hostname"), text
        elif protocol in (TCP, UDP):
            yield (*path, "hostname"), f"a {protocol} listener has no hostname: it reads none"
    yield from _tls_mistakes(listener, path)
    yield from _allowed_route_mistakes(listener.allowed_routes, (*path, "allowedRoutes"))


def listeners_warnings(listeners: Sequence[Listener]) -> Iterator[Finding]:
    """Yield what is probably not meant in the listeners of an object."""
    for index, listener in enumerate(listeners):
        path: FieldPath = ("listeners", index)
        yield from _listener_warnings(listener, path)
        allowed = listener.allowed_routes.namespaces
        if allowed.selector is not None and allowed.from_ is not From.SELECTOR:
            yield (
                (*path, "allowedRoutes", "namespaces", "selector"),
                f"has no effect: from is {allowed.from_.value}, not Selector",
            )


def _listener_warnings(listener: Listener, path: FieldPath) -> Iterator[Finding]:
    """Yield options and protocols that no router here has."""
    if listener.tls is not None:
        yield from _option_warnings(listener.tls, (*path, "tls"))
    if listener.protocol in PROTOCOLS:
        return
    what = "is for waypoints and the gateways between networks of an ambient mesh"
    said = what if listener.protocol == HBONE else "is no protocol that is known here"
    yield (
        (*path, "protocol"),
        f'"{listener.protocol}" {said}: the listener has no effect; known: {", ".join(PROTOCOLS)}',
    )


def _tls_mistakes(listener: Listener, path: FieldPath) -> Iterator[Finding]:
    tls, protocol = listener.tls, listener.protocol
    if tls is None:
        # Kubernetes refuses it of TLS alone; one of HTTPS may leave its port to ListenerSets.
        if protocol == TLS:
            yield path, "a TLS listener needs tls, with the mode Passthrough or Terminate"
        return
    here = (*path, "tls")
    if protocol in (HTTP, TCP, UDP):
        yield here, f"can't stand at a listener of protocol {protocol}; use HTTPS or TLS"
        return
    if protocol == HTTPS and tls.mode is TlsMode.PASSTHROUGH:
        yield (*here, "mode"), "an HTTPS listener ends TLS itself; for Passthrough use TLS"
    if protocol == TLS and tls.mode is None:
        yield (*here, "mode"), "is missing: a TLS listener says Terminate or Passthrough"
    if listener.terminates and not tls.certificate_refs and not tls.options:
        yield (*here, "certificateRefs"), "is missing: TLS that ends here needs a certificate"
    if len(tls.certificate_refs) > _MOST_CERTIFICATES:
        yield (*here, "certificateRefs"), f"more than {_MOST_CERTIFICATES} entries"
    for index, each in enumerate(tls.certificate_refs):
        yield from object_reference_mistakes(each, (*here, "certificateRefs", index))
    if tls.frontend_validation is not None:
        yield (*here, "frontendValidation"), f"is not supported here; {_INSTEAD}"
    yield from _option_mistakes(tls, here)


def _option_mistakes(tls: ListenerTls, path: FieldPath) -> Iterator[Finding]:
    mode = tls.options.get(TLS_TERMINATE_MODE, "SIMPLE")
    if mode not in _TERMINATE_MODES:
        yield (
            (*path, "options", TLS_TERMINATE_MODE),
            f'expected one of {", ".join(_TERMINATE_MODES)}, found "{mode}"',
        )
        return
    needs_one = mode not in (ISTIO_SIMPLE, "ISTIO_MUTUAL") and tls.mode is not TlsMode.PASSTHROUGH
    if needs_one and tls.options and not tls.certificate_refs:
        yield (*path, "certificateRefs"), f"is missing: TLS in mode {mode} needs a certificate"


def _option_warnings(tls: ListenerTls, path: FieldPath) -> Iterator[Finding]:
    known = (TLS_TERMINATE_MODE, TLS_CIPHER_SUITES)
    for key in tls.options:
        if key not in known:
            yield (*path, "options", key), f"has no effect; known: {', '.join(known)}"
    for each in cipher_suites(tls):
        if each not in CIPHERS:
            yield (
                (*path, "options", TLS_CIPHER_SUITES),
                f'the cipher "{each}" is left out, as in Istio: Envoy knows it not',
            )


def cipher_suites(tls: ListenerTls) -> tuple[str, ...]:
    """Return the ciphers that the options of a listener name."""
    given = tls.options.get(TLS_CIPHER_SUITES, "").split(",")
    return tuple(each.strip() for each in given if each.strip())


def _allowed_route_mistakes(allowed: AllowedRoutes, path: FieldPath) -> Iterator[Finding]:
    yield from namespace_mistakes(allowed.namespaces, (*path, "namespaces"))
    if len(allowed.kinds) > 8:
        yield (*path, "kinds"), "more than 8 entries"
    for index, each in enumerate(allowed.kinds):
        if text := wrong_group(each.group):
            yield (*path, "kinds", index, "group"), text
        if text := wrong_kind(each.kind):
            yield (*path, "kinds", index, "kind"), text


def namespace_mistakes(namespaces: RouteNamespaces, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with the namespaces from which objects may attach."""
    if namespaces.from_ is From.SELECTOR and namespaces.selector is None:
        yield path, "from Selector needs a selector"
    expressions = namespaces.selector.match_expressions if namespaces.selector is not None else ()
    for index, each_of in enumerate(expressions):
        here = (*path, "selector", "matchExpressions", index, "values")
        needs_values = each_of.operator in (Operator.IN, Operator.NOT_IN)
        if needs_values and not each_of.values:
            yield here, f"is missing: the operator {each_of.operator.value} needs values"
        if not needs_values and each_of.values:
            yield here, f"the operator {each_of.operator.value} takes no values"
