"""Kubernetes' Ingress and IngressClass: which requests go to which Services of a namespace.

Source: Kubernetes' API, networking/v1, and its validation; what has no effect is as in Istio.
"""

import re
from collections.abc import Iterator

from istio_config.addresses import is_host, is_ip
from istio_config.kinds.checks import below
from istio_config.kinds.fields import SpecFields, Text
from istio_config.kinds.ingress._paths import (
    IngressBackend,
    IngressPath,
    backend_mistakes,
    path_mistakes,
    path_warnings,
)
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

INGRESS_GROUP = "networking.k8s.io"
INGRESS_CONTROLLER = "istio.io/ingress-controller"
"""Istio's name as a controller, under which this control plane serves Ingresses."""
CLASS_ANNOTATION = "kubernetes.io/ingress.class"
"""The annotation that names the class of an Ingress, before `ingressClassName`."""
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_CONTROLLER = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


class HttpPaths(SpecFields, frozen=True):
    """The paths of a host."""

    paths: tuple[IngressPath, ...]


class IngressRule(SpecFields, frozen=True):
    """The paths of a host; without a host, of all that no other rule names."""

    host: str = ""
    http: HttpPaths | None = None


class IngressTls(SpecFields, frozen=True):
    """The Secret with the certificate of some hosts; without hosts, of all."""

    hosts: tuple[Text, ...] = ()
    secret_name: str = ""


class IngressSpec(SpecFields, frozen=True):
    """Rules for requests from outside, and the certificates of their hosts."""

    ingress_class_name: Text | None = None
    default_backend: IngressBackend | None = None
    tls: tuple[IngressTls, ...] = ()
    rules: tuple[IngressRule, ...] = ()


class ClassParameters(SpecFields, frozen=True):
    """An object with settings of a controller."""

    kind: Text
    name: Text
    api_group: str | None = None
    scope: str | None = None
    namespace: str | None = None


class IngressClassSpec(SpecFields, frozen=True):
    """A class of Ingresses: the controller that serves them."""

    controller: Text
    parameters: ClassParameters | None = None


def _mistakes(spec: IngressSpec, _metadata: Metadata) -> Iterator[Finding]:
    if not spec.rules and spec.default_backend is None:
        yield (), "has neither rules nor defaultBackend"
    name = spec.ingress_class_name
    if name is not None and not _NAME.fullmatch(name):
        yield ("ingressClassName",), f'"{name}" is not the name of an IngressClass'
    if spec.default_backend is not None:
        yield from below(("defaultBackend",), backend_mistakes(spec.default_backend))
    for index, rule in enumerate(spec.rules):
        path: FieldPath = ("rules", index)
        if rule.host:
            yield from below((*path, "host"), _host_mistakes(rule.host))
        if rule.http is not None:
            if not rule.http.paths:
                yield (*path, "http", "paths"), "is empty: give at least one path"
            for number, each in enumerate(rule.http.paths):
                yield from below((*path, "http", "paths", number), path_mistakes(each))
    yield from _tls_mistakes(spec.tls)


def _tls_mistakes(certificates: tuple[IngressTls, ...]) -> Iterator[Finding]:
    for index, tls in enumerate(certificates):
        path = ("tls", index)
        for number, host in enumerate(tls.hosts):
            if host != "*":
                yield from below((*path, "hosts", number), _host_mistakes(host))
        if tls.secret_name and not _NAME.fullmatch(tls.secret_name):
            yield (*path, "secretName"), f'"{tls.secret_name}" is not the name of a Secret'


def _host_mistakes(host: str) -> Iterator[Finding]:
    if is_ip(host):
        yield (), f'"{host}" is an IP address; a rule is for a host name'
    elif not is_host(host.removeprefix("*.")) or not _NAME.fullmatch(host.removeprefix("*.")):
        yield (), f'"{host}" is not a host name in lower case such as shop.example or *.example'


def _warnings(spec: IngressSpec, metadata: Metadata) -> Iterator[Finding]:
    if spec.ingress_class_name is not None and CLASS_ANNOTATION in metadata.annotations:
        yield (
            ("ingressClassName",),
            f"has no effect: the annotation {CLASS_ANNOTATION} decides; keep one of the two",
        )
    if spec.default_backend is not None:
        yield (
            ("defaultBackend",),
            "has no effect, as in Istio: write a rule without host, for the path / of type Prefix",
        )
    for index, rule in enumerate(spec.rules):
        if rule.http is None:
            yield ("rules", index), "has no http with paths, so it has no effect"
            continue
        for number, each in enumerate(rule.http.paths):
            yield from below(("rules", index, "http", "paths", number), path_warnings(each))
    for index, tls in enumerate(spec.tls):
        if not tls.secret_name:
            yield ("tls", index), "has no secretName, so it has no effect, as in Istio"


INGRESS = Kind(
    name="Ingress",
    group=INGRESS_GROUP,
    versions=("v1",),
    spec=IngressSpec,
    validate=_mistakes,
    warn=_warnings,
)


def _class_mistakes(spec: IngressClassSpec, _metadata: Metadata) -> Iterator[Finding]:
    if len(spec.controller) > 250 or not _CONTROLLER.fullmatch(spec.controller):
        yield (
            ("controller",),
            f'"{spec.controller}" is not a domain and a path, as {INGRESS_CONTROLLER} is',
        )


def _class_warnings(spec: IngressClassSpec, _metadata: Metadata) -> Iterator[Finding]:
    if spec.controller != INGRESS_CONTROLLER:
        yield (
            ("controller",),
            (
                f"{spec.controller} is another controller: Ingresses of this class are let pass, "
                f"without effect; those of {INGRESS_CONTROLLER} are served"
            ),
        )
    elif spec.parameters is not None:
        yield ("parameters",), "has no effect, as in Istio"


INGRESS_CLASS = Kind(
    name="IngressClass",
    group=INGRESS_GROUP,
    versions=("v1",),
    spec=IngressClassSpec,
    validate=_class_mistakes,
    warn=_class_warnings,
)
