"""The paths of an Ingress: how requests are distinguished, and where they go.

Source: Kubernetes' API, networking/v1, and its validation.
"""

from collections.abc import Iterator
from enum import StrEnum

from istio_config.kinds.checks import below, is_dns_label
from istio_config.kinds.fields import PortNumber, SpecFields, Text
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class PathType(StrEnum):
    """How the path of a rule is compared with that of a request."""

    EXACT = "Exact"
    PREFIX = "Prefix"
    """By whole path elements."""
    IMPLEMENTATION_SPECIFIC = "ImplementationSpecific"
    """As in Istio: `/x/*` and `/x.*` are prefixes, anything else is exact."""


class BackendPort(SpecFields, frozen=True):
    """A port of a Service, by its number or its name."""

    number: PortNumber | None = None
    name: Text | None = None


class ServiceBackend(SpecFields, frozen=True):
    """A Service of the Ingress's own namespace, and the port that is meant."""

    name: Text
    port: BackendPort = BackendPort()


class ResourceBackend(SpecFields, frozen=True):
    """An object of the Ingress's own namespace that is no Service."""

    kind: Text
    name: Text
    api_group: str = ""


class IngressBackend(SpecFields, frozen=True):
    """The target of requests: a Service, or another object."""

    service: ServiceBackend | None = None
    resource: ResourceBackend | None = None


class IngressPath(SpecFields, frozen=True):
    """The requests whose path matches, and their backend."""

    backend: IngressBackend
    path: str = ""
    path_type: PathType | None = None


EVERY_PATH = frozenset({"", "*", "/*", ".*"})
"""The paths without a type of their own that stand for all."""
_UNSAFE = ("//", "/./", "/../", "%2f", "%2F")
_UNSAFE_ENDS = ("/..", "/.")


def path_mistakes(path: IngressPath) -> Iterator[Finding]:
    """Yield what is wrong with a path and its backend; paths of fields start below it."""
    yield from below(("backend",), backend_mistakes(path.backend))
    text = path.path
    if path.path_type in (None, PathType.IMPLEMENTATION_SPECIFIC):
        if text not in EVERY_PATH and not text.startswith("/"):
            yield ("path",), f'"{text}" must begin with "/"'
        return
    if not text.startswith("/"):
        yield ("path",), f'"{text}" must begin with "/": pathType is {path.path_type}'
    bad = [each for each in _UNSAFE if each in text]
    bad += [each for each in _UNSAFE_ENDS if text.endswith(each)]
    if bad:
        yield ("path",), f'"{text}" has {bad[0]}, which no path of type {path.path_type} may have'


def path_warnings(path: IngressPath) -> Iterator[Finding]:
    """Yield what is probably not meant in a path; paths of fields start below it."""
    if path.path_type is None:
        yield (
            ("pathType",),
            (
                "is missing, which Kubernetes refuses: taken for ImplementationSpecific, so that "
                "/x/* is a prefix and any other path is exact"
            ),
        )
    if path.backend.resource is not None:
        yield ("backend", "resource"), _NO_RESOURCE


_NO_RESOURCE = (
    "only a Service can be a backend, as in Istio: this rule has no effect, and its requests go "
    "to the next rule that matches, or are answered with 404"
)


def backend_mistakes(backend: IngressBackend) -> Iterator[Finding]:
    """Yield what is wrong with a backend."""
    if backend.service is not None and backend.resource is not None:
        yield (), "has service and resource: keep one"
    elif backend.service is None and backend.resource is None:
        yield (), "names no service"
    elif backend.service is not None:
        yield from below(("service",), _service_mistakes(backend.service))


def _service_mistakes(service: ServiceBackend) -> Iterator[Finding]:
    path: FieldPath = ("port",)
    if not is_dns_label(service.name):
        yield ("name",), f'"{service.name}" is not the name of a Service'
    if service.port.number is not None and service.port.name is not None:
        yield path, "has number and name: keep one"
    elif service.port.number is None and service.port.name is None:
        yield path, "is missing: give the number or the name of the port that is meant"
