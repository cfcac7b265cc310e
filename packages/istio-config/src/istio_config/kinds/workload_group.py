"""WorkloadGroup: a template of the WorkloadEntries of proxies that register themselves.

Source: Istio's API, networking/v1.
"""

import functools
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Annotated

import msgspec

from istio_config.kinds.checks import is_plain_header_name, label_mistakes
from istio_config.kinds.fields import Labels, PortNumber, SpecFields
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.workload_entry import WorkloadEntrySpec
from mesh_configfile.shapes import Finding
from mesh_identity import InvalidSpiffeId, checked_segment

ADDRESSES = "mesh-discovery/addresses"
"""The annotation of a group with ranges, such as `10.0.0.0/8, fd00::/8`.

Its proxies may register with addresses in them that are not their connections' own, as behind a NAT
or with a second interface.
"""
DEFAULT_ACCOUNT = "default"
"""The service account of a group that names none, as of a pod that names none."""

_Seconds = Annotated[int, msgspec.Meta(ge=-2147483648, le=2147483647)]
_KINDS = ("httpGet", "tcpSocket", "exec", "grpc")


class GroupMetadata(SpecFields, frozen=True):
    """Labels and annotations of the entries."""

    labels: Labels = msgspec.field(default_factory=dict)
    annotations: Labels = msgspec.field(default_factory=dict)


class HttpHeader(SpecFields, frozen=True):
    """A header of a probe."""

    name: str = ""
    value: str = ""


class HttpProbe(SpecFields, frozen=True):
    """A request that the application answers if it is healthy."""

    port: PortNumber
    path: str = ""
    host: str = ""
    scheme: str = ""
    http_headers: tuple[HttpHeader, ...] = ()


class TcpProbe(SpecFields, frozen=True):
    """A connection that the application accepts if it is healthy."""

    port: PortNumber
    host: str = ""


class ExecProbe(SpecFields, frozen=True):
    """A command that exits with 0 if the application is healthy."""

    command: tuple[str, ...] = ()


class GrpcProbe(SpecFields, frozen=True):
    """A call of gRPC's health service."""

    port: PortNumber
    service: str = ""


class ReadinessProbe(SpecFields, frozen=True):
    """The check by which agents find out the health of the application."""

    initial_delay_seconds: _Seconds = 0
    timeout_seconds: _Seconds = 0
    period_seconds: _Seconds = 0
    success_threshold: _Seconds = 0
    failure_threshold: _Seconds = 0
    http_get: HttpProbe | None = None
    tcp_socket: TcpProbe | None = None
    exec: ExecProbe | None = None
    grpc: GrpcProbe | None = None


class WorkloadGroupSpec(SpecFields, frozen=True):
    """The fields of a group."""

    template: WorkloadEntrySpec | None = None
    metadata: GroupMetadata = GroupMetadata()
    probe: ReadinessProbe | None = None


def group_labels(group: WorkloadGroupSpec) -> dict[str, str]:
    """Return the labels of every workload of a group."""
    template = group.template or WorkloadEntrySpec()
    return {**template.labels, **group.metadata.labels}


def registering_account(spec: WorkloadGroupSpec) -> str:
    """Return the service account whose proxies may register as workloads of a group."""
    named = spec.template.service_account if spec.template is not None else ""
    return named or DEFAULT_ACCOUNT


def is_allowed(address: str, annotations: Iterable[tuple[str, str]]) -> bool:
    """Return whether a group's annotations let a proxy register with an address that it names."""
    text = dict(annotations).get(ADDRESSES, "")
    return any(ip_address(address) in each for each in _ranges(text))


@functools.lru_cache(maxsize=1024)  # asked for each registered workload when its group changes
def _ranges(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(each.strip()) for each in text.split(",") if each.strip())


def _is_exact_range(text: str) -> bool:
    """Return whether this is an address, or a range without bits below its prefix."""
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def _mistakes(spec: WorkloadGroupSpec, metadata: Metadata) -> Iterator[Finding]:
    for each in filter(None, map(str.strip, metadata.annotations.get(ADDRESSES, "").split(","))):
        if not _is_exact_range(each):
            yield (
                (),
                f'the annotation {ADDRESSES}: "{each}" is no range such as 10.0.0.0/8',
            )
    if spec.template is None:
        yield (), "the field template is missing; an empty one, {}, will do"
    else:
        yield from label_mistakes(spec.template.labels, ("template", "labels"))
        if spec.template.service_account:
            try:
                checked_segment(spec.template.service_account, what="service account")
            except InvalidSpiffeId as error:
                yield ("template", "serviceAccount"), str(error)
    yield from label_mistakes(spec.metadata.labels, ("metadata", "labels"))
    if spec.probe is not None:
        for path, message in _probe_mistakes(spec.probe):
            yield ("probe", *path), message


def _probe_mistakes(probe: ReadinessProbe) -> Iterator[Finding]:
    numbers = {
        "initialDelaySeconds": probe.initial_delay_seconds,
        "timeoutSeconds": probe.timeout_seconds,
        "periodSeconds": probe.period_seconds,
        "successThreshold": probe.success_threshold,
        "failureThreshold": probe.failure_threshold,
    }
    for field, value in numbers.items():
        if value < 0:
            yield (field,), f"must not be below 0, found {value}"
    given = [
        name
        for name, each in zip(
            _KINDS, (probe.http_get, probe.tcp_socket, probe.exec, probe.grpc), strict=True
        )
        if each is not None
    ]
    if len(given) != 1:
        yield (), f"must have one of {', '.join(_KINDS)}, found {', '.join(given) or 'none'}"
    if probe.exec is not None and not probe.exec.command:
        yield ("exec", "command"), "must name a command"
    if probe.http_get is not None:
        if probe.http_get.scheme not in ("", "HTTP", "HTTPS", "http", "https"):
            yield (
                ("httpGet", "scheme"),
                f'expected HTTP or HTTPS, found the text "{probe.http_get.scheme}"',
            )
        for index, header in enumerate(probe.http_get.http_headers):
            here = ("httpGet", "httpHeaders", index, "name")
            if not header.name:
                yield here, "must not be empty"
            elif not is_plain_header_name(header.name):
                yield here, f'"{header.name}" is not the name of a header'


def _warnings(spec: WorkloadGroupSpec, _metadata: Metadata) -> Iterator[Finding]:
    if spec.template is not None and spec.template.address:
        yield (
            ("template", "address"),
            "has no effect: each proxy that registers has an address of its own",
        )
    if spec.template is not None and not spec.template.service_account:
        yield (
            ("template",),
            (
                f"names no serviceAccount: only proxies of the account {DEFAULT_ACCOUNT} can "
                "register; write that of the workloads"
            ),
        )


WORKLOAD_GROUP = Kind(
    name="WorkloadGroup",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=WorkloadGroupSpec,
    validate=_mistakes,
    warn=_warnings,
)
