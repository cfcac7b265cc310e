"""The rules of the Gateway API for a Gateway, and what of it has no effect here."""

import re
from collections.abc import Iterator

from istio_config.addresses import is_ip
from istio_config.kinds.gateway_api._gateway import (
    HTTP,
    HTTPS,
    PROTOCOLS,
    TCP,
    TLS,
    TLS_TERMINATE_MODE,
    UDP,
    AllowedRoutes,
    From,
    GatewayAddress,
    GatewaySpec,
    Listener,
    ListenerTls,
    Operator,
    TlsMode,
)
from istio_config.kinds.gateway_api._names import (
    GROUP,
    wrong_group,
    wrong_hostname,
    wrong_kind,
    wrong_section_name,
)
from istio_config.kinds.gateway_api._references import check_object
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_MOST_LISTENERS = 64
_MOST_ADDRESSES = 16
_MOST_CERTIFICATES = 64
_OWN_PROTOCOL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/\w+")
_TERMINATE_MODES = ("SIMPLE", "MUTUAL", "ISTIO_MUTUAL")


def _validate(spec: GatewaySpec, _metadata: Metadata) -> Iterator[Finding]:
    if not 1 <= len(spec.listeners) <= _MOST_LISTENERS:
        yield (
            ("listeners",),
            f"must have 1 to {_MOST_LISTENERS} entries, it has {len(spec.listeners)}",
        )
    names: set[str] = set()
    distinct: dict[tuple[int, str, str], str] = {}
    for index, each in enumerate(spec.listeners):
        place = ("listeners", index)
        if text := wrong_section_name(each.name):
            yield (*place, "name"), text
        if each.name in names:
            yield (*place, "name"), f'the name "{each.name}" is given twice'
        names.add(each.name)
        key = each.port, each.protocol, each.hostname or ""
        other = distinct.setdefault(key, each.name)
        if other != each.name:
            yield (
                place,
                (
                    f"has the port, the protocol and the hostname of the listener {other}; "
                    "keep one, or give it another of the three"
                ),
            )
        yield from _check_listener(each, place)
    yield from _check_addresses(spec.addresses)
    yield from _unsupported(spec)


def _check_listener(listener: Listener, place: FieldPath) -> Iterator[Finding]:
    protocol = listener.protocol
    if protocol not in PROTOCOLS and not _OWN_PROTOCOL.fullmatch(protocol):
        yield (
            (*place, "protocol"),
            f'unknown protocol "{protocol}"; known: {", ".join(PROTOCOLS)}',
        )
    if listener.hostname:
        if text := wrong_hostname(listener.hostname):
            yield (*place, "hostname"), text
        elif protocol in (TCP, UDP):
            yield (*place, "hostname"), f"a {protocol} listener has no hostname: it reads none"
    yield from _check_tls(listener, place)
    yield from _check_allowed(listener.allowed_routes, (*place, "allowedRoutes"))


def _check_tls(listener: Listener, place: FieldPath) -> Iterator[Finding]:
    tls, protocol = listener.tls, listener.protocol
    if tls is None:
        if protocol in (HTTPS, TLS):
            yield place, f"a {protocol} listener needs tls with its certificateRefs"
        return
    path = (*place, "tls")
    if protocol in (HTTP, TCP, UDP):
        yield path, f"can't stand at a listener of protocol {protocol}; use HTTPS or TLS"
        return
    if protocol == HTTPS and tls.mode is TlsMode.PASSTHROUGH:
        yield (*path, "mode"), "an HTTPS listener ends TLS itself; for Passthrough use TLS"
    if protocol == TLS and tls.mode is None:
        yield (*path, "mode"), "is missing: a TLS listener says Terminate or Passthrough"
    if listener.terminates and not tls.certificate_refs and not tls.options:
        yield (*path, "certificateRefs"), "is missing: TLS that ends here needs a certificate"
    if len(tls.certificate_refs) > _MOST_CERTIFICATES:
        yield (*path, "certificateRefs"), f"more than {_MOST_CERTIFICATES} entries"
    for index, each in enumerate(tls.certificate_refs):
        yield from check_object(each, (*path, "certificateRefs", index))
    if tls.frontend_validation is not None:
        yield (*path, "frontendValidation"), f"is not supported here; {_INSTEAD}"
    yield from _check_options(tls, path)


_INSTEAD = f"with {TLS_TERMINATE_MODE}: MUTUAL in tls.options, the Secret's ca.crt validates"


def _check_options(tls: ListenerTls, path: FieldPath) -> Iterator[Finding]:
    for key, value in tls.options.items():
        if key == TLS_TERMINATE_MODE:
            if value not in _TERMINATE_MODES:
                yield (
                    (*path, "options", key),
                    f'expected one of {", ".join(_TERMINATE_MODES)}, found "{value}"',
                )
            elif value != "ISTIO_MUTUAL" and not tls.certificate_refs:
                yield (
                    (*path, "certificateRefs"),
                    f"is missing: TLS in mode {value} needs a certificate",
                )
        else:
            yield (*path, "options", key), f"is not supported here; known: {TLS_TERMINATE_MODE}"


def _check_allowed(allowed: AllowedRoutes, place: FieldPath) -> Iterator[Finding]:
    namespaces = allowed.namespaces
    if namespaces.from_ is From.SELECTOR and namespaces.selector is None:
        yield (*place, "namespaces"), "from Selector needs a selector"
    if len(allowed.kinds) > 8:
        yield (*place, "kinds"), "more than 8 entries"
    for index, each in enumerate(allowed.kinds):
        if text := wrong_group(each.group):
            yield (*place, "kinds", index, "group"), text
        if text := wrong_kind(each.kind):
            yield (*place, "kinds", index, "kind"), text
    expressions = namespaces.selector.match_expressions if namespaces.selector is not None else ()
    for index, each_of in enumerate(expressions):
        path = (*place, "namespaces", "selector", "matchExpressions", index, "values")
        needs_values = each_of.operator in (Operator.IN, Operator.NOT_IN)
        if needs_values and not each_of.values:
            yield path, f"is missing: the operator {each_of.operator.value} needs values"
        if not needs_values and each_of.values:
            yield path, f"the operator {each_of.operator.value} takes no values"


def _check_addresses(addresses: tuple[GatewayAddress, ...]) -> Iterator[Finding]:
    if len(addresses) > _MOST_ADDRESSES:
        yield ("addresses",), f"has {len(addresses)} entries; {_MOST_ADDRESSES} are allowed"
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(addresses):
        place = ("addresses", index, "value")
        if each.value and (each.type, each.value) in seen:
            yield place, f'the address "{each.value}" is given twice'
        seen.add((each.type, each.value))
        if each.type == "IPAddress":
            if each.value and not is_ip(each.value):
                yield place, f'"{each.value}" is not an IP address'
        elif each.type != "Hostname":
            yield (
                ("addresses", index, "type"),
                f'"{each.type}" is not supported here; use Hostname or IPAddress',
            )
        elif each.value and (text := wrong_hostname(each.value, allow_wildcard=False)):
            yield place, text


def _unsupported(spec: GatewaySpec) -> Iterator[Finding]:
    if spec.backend_tls is not None:
        yield ("backendTLS",), _UNSUPPORTED
    if spec.tls is not None:
        yield ("tls",), _UNSUPPORTED


def _lacks(spec: GatewaySpec, _metadata: Metadata) -> Iterator[Finding]:
    if spec.default_scope != "None":
        yield ("defaultScope",), "a default Gateway is not supported yet"
    allowed = spec.allowed_listeners
    if allowed is not None and allowed.namespaces.from_ is not From.NONE:
        yield ("allowedListeners",), "ListenerSet is not supported yet"


_UNSUPPORTED = "is not supported here; remove it"


def _warn(spec: GatewaySpec, _metadata: Metadata) -> Iterator[Finding]:
    if spec.infrastructure is not None:
        yield ("infrastructure",), "has no effect: no proxies are deployed here"
    for index, each in enumerate(spec.addresses):
        if each.type == "IPAddress":
            yield (
                ("addresses", index),
                (
                    "has no effect: the routers' own addresses are those they listen on; "
                    "a Hostname names the service of the routers"
                ),
            )
    for index, listener in enumerate(spec.listeners):
        allowed = listener.allowed_routes.namespaces
        if allowed.selector is not None and allowed.from_ is not From.SELECTOR:
            yield (
                ("listeners", index, "allowedRoutes", "namespaces", "selector"),
                f"has no effect: from is {allowed.from_.value}, not Selector",
            )


GATEWAY = Kind(
    name="Gateway",
    group=GROUP,
    versions=("v1", "v1beta1"),
    spec=GatewaySpec,
    validate=_validate,
    warn=_warn,
    lacks=_lacks,
)
