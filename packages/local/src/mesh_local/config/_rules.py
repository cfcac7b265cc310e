"""The rules between the fields of a mesh file, and those that no type can say."""

import difflib
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

from mesh_configfile import DurationBoundsError, DurationError, FieldPath, parse_duration
from mesh_identity import InvalidSpiffeId, checked_trust_domain
from mesh_local.config._check_request import Request, RequestError
from mesh_local.config._service_names import (
    first_of_service,
    instance_names,
    service_name,
    service_names,
)
from mesh_local.config._shapes import Check, MeshShape, Protocol, Workload
from mesh_local.config._variables import wrong_variables

MAX_INSTANCES = 250
ENVOY_PORTS = {
    15000: "Envoy's admin",
    15020: "the agent's status",
    15021: "Envoy's readiness",
    15090: "Envoy's metrics",
}
USER = "user"
OUTSIDER = "outsider"
RESERVED_NAMES = (USER, OUTSIDER, "control-plane", "mesh-local")

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LOCALITY = re.compile(r"[^/\s]+(/[^/\s]+){0,2}")
_LONGEST = timedelta(hours=8760)


class Rules:
    """The checks that look at several fields. directory: where relative paths start."""

    def __init__(self, shape: MeshShape, directory: Path) -> None:
        self._shape = shape
        self._directory = directory

    def problems(self) -> Iterator[tuple[FieldPath, str]]:
        """Yield every mistake with its place."""
        yield from self._mesh()
        yield from self._workloads()
        yield from self._further_config()
        for index, check in enumerate(self._shape.checks):
            yield from self._check(check, ("checks", index))

    def _mesh(self) -> Iterator[tuple[FieldPath, str]]:
        mesh = self._shape.mesh
        try:
            checked_trust_domain(mesh.trust_domain)
        except InvalidSpiffeId as error:
            yield ("mesh", "trustDomain"), str(error)
        for name, text, least in (
            ("certificateLifetime", mesh.certificate_lifetime, 5),
            ("drain", mesh.drain, 0),
        ):
            try:
                parse_duration(text, least=timedelta(seconds=least), most=_LONGEST)
            except DurationBoundsError:
                yield ("mesh", name), f"must be from {least}s to 8760h, found {text}"
            except DurationError as error:
                yield (
                    ("mesh", name),
                    f'expected a duration such as 90s or 1h30m, found "{text}"{error.hint}',
                )
        for name, port in (("httpProxyPort", mesh.http_proxy_port), ("dnsPort", mesh.dns_port)):
            if port in ENVOY_PORTS:
                yield ("mesh", name), f"{port} is the port of {ENVOY_PORTS[port]}"

    def _workloads(self) -> Iterator[tuple[FieldPath, str]]:
        workloads = self._shape.workloads
        if not workloads:
            yield ("workloads",), "must name at least one workload"
        if (count := sum(each.replicas for each in workloads)) > MAX_INSTANCES:
            yield ("workloads",), f"{count} replicas in all, {MAX_INSTANCES} at most"
        names: dict[str, int] = {}
        for index, workload in enumerate(workloads):
            place: FieldPath = ("workloads", index)
            for name in instance_names(workload):
                if names.setdefault(name, index) != index:
                    yield (*place, "name"), f'a second workload has the name "{name}"'
                    break
            yield from self._workload(workload, place)

    def _workload(self, workload: Workload, place: FieldPath) -> Iterator[tuple[FieldPath, str]]:
        if workload.name in RESERVED_NAMES:
            yield (*place, "name"), f'"{workload.name}" has a meaning of its own here; rename it'
        for name, text in (
            ("name", workload.name),
            ("namespace", workload.namespace),
            *((("service", workload.service),) if workload.service else ()),
            ("serviceAccount", workload.service_account or workload.name),
        ):
            if not _LABEL.fullmatch(text):
                yield (
                    (*place, name),
                    f'"{text}" is not a name; use lower-case letters, digits and "-"',
                )
        yield from self._service(workload, place)
        yield from self._ports(workload, place)
        yield from self._gateway(workload, place)
        if workload.command and not all(workload.command):
            yield (*place, "command"), "holds an empty word"
        if not _is_directory(self._directory / workload.directory):
            yield (
                (*place, "directory"),
                f"there is no directory {self._directory / workload.directory}",
            )
        yield from wrong_variables(workload, place)

    def _service(self, workload: Workload, place: FieldPath) -> Iterator[tuple[FieldPath, str]]:
        """Yield what keeps workloads from being one service, and a place that is none."""
        first = first_of_service(self._shape.workloads, workload)
        if workload.ports and first.ports != workload.ports:
            yield (
                (*place, "ports"),
                (
                    f"{first.name} is of the service {service_name(workload)}, too, and has other "
                    "ports: all workloads of a service have the same"
                ),
            )
        if workload.locality and not _LOCALITY.fullmatch(workload.locality):
            yield (
                (*place, "locality"),
                f'"{workload.locality}" is not region, region/zone or region/zone/subzone',
            )

    def _gateway(self, workload: Workload, place: FieldPath) -> Iterator[tuple[FieldPath, str]]:
        gateway = workload.gateway
        if gateway is None:
            return
        for name, given in (
            ("command", workload.command),
            ("ports", workload.ports),
            ("proxyless", workload.proxyless),
            ("service", workload.service),
        ):
            if given:
                yield (*place, name), "a gateway has no program: leave it out"
        if workload.replicas > 1:
            yield (*place, "replicas"), "only one gateway can listen on its address and ports"
        if not gateway.ports:
            yield (*place, "gateway", "ports"), "must name the ports of its Gateway objects"
        if not _is_ip(gateway.address):
            yield (*place, "gateway", "address"), f'"{gateway.address}" is not an IP address'
        for index, port in enumerate(gateway.ports):
            if port in gateway.ports[:index]:
                yield (*place, "gateway", "ports", index), f"the port {port} is given twice"

    def _ports(self, workload: Workload, place: FieldPath) -> Iterator[tuple[FieldPath, str]]:
        numbers: set[int] = set()
        names: set[str] = set()
        for index, port in enumerate(workload.ports):
            here = (*place, "ports", index)
            if port.port in ENVOY_PORTS:
                yield (*here, "port"), f"{port.port} is the port of {ENVOY_PORTS[port.port]}"
            if port.port == self._shape.mesh.http_proxy_port:
                yield (
                    (*here, "port"),
                    f"{port.port} is the mesh's httpProxyPort; change one of the two",
                )
            if port.port == self._shape.mesh.dns_port:
                yield (
                    (*here, "port"),
                    f"{port.port} is the mesh's dnsPort; change one of the two",
                )
            if port.port in numbers:
                yield (*here, "port"), f"the port {port.port} is given twice"
            name = port.name or f"{port.protocol}-{port.port}"
            if not _LABEL.fullmatch(name):
                yield (*here, "name"), f'"{name}" is not a name; use lower-case letters and digits'
            if name in names:
                yield (*here, "name"), f'the name "{name}" is given twice'
            if workload.proxyless and port.protocol is not Protocol.GRPC:
                yield (
                    (*here, "protocol"),
                    f"a proxyless workload serves grpc only, not {port.protocol}",
                )
            numbers.add(port.port)
            names.add(name)

    def _further_config(self) -> Iterator[tuple[FieldPath, str]]:
        for index, document in enumerate(self._shape.config):
            for name in ("apiVersion", "kind", "metadata"):
                if name not in document:
                    yield ("config", index), f"the field {name} is missing, as in Istio's YAML"
        directory = self._shape.config_dir
        if directory and not _is_directory(self._directory / directory):
            yield ("configDir",), f"there is no directory {self._directory / directory}"

    def _check(self, check: Check, place: FieldPath) -> Iterator[tuple[FieldPath, str]]:
        workloads = {each.name for each in self._shape.workloads if each.gateway is None}
        if check.from_ not in {*workloads, USER, OUTSIDER}:
            close = difflib.get_close_matches(check.from_, workloads, n=1)
            hint = f'; did you mean "{close[0]}"?' if close else ""
            yield (
                (*place, "from"),
                f'there is no workload "{check.from_}"{hint} (or write {USER} or {OUTSIDER})',
            )
        elif any(each.name == check.from_ and each.proxyless for each in self._shape.workloads):
            yield (
                (*place, "from"),
                f'the workload "{check.from_}" is proxyless: it has no Envoy to send through',
            )
        elif check.from_ in workloads and not self._shape.mesh.http_proxy_port:
            yield (
                (*place, "from"),
                "a check that goes through a workload's Envoy needs mesh.httpProxyPort",
            )
        try:
            request = Request.parse(check.request)
        except RequestError as error:
            yield (*place, "request"), str(error)
        else:
            if check.via:
                yield from self._via(check, request, place)
                return
            target = self._target(request)
            if check.from_ not in (USER, OUTSIDER):
                pass
            elif target is None:
                yield (
                    (*place, "request"),
                    f"no workload serves {request.host}:{request.port} in this file",
                )
            elif check.from_ == USER and target.proxyless:
                yield (
                    (*place, "request"),
                    f'the workload "{target.name}" is proxyless: it answers gRPC, not HTTP',
                )
        expect = check.expect
        if expect.refused and (expect.status or expect.text or expect.caller):
            yield (*place, "expect"), "a refused request has no answer: keep refused or the rest"
        if not (expect.refused or expect.status or expect.text or expect.caller):
            yield (*place, "expect"), "give status, text, caller or refused"

    def _via(
        self, check: Check, request: Request, place: FieldPath
    ) -> Iterator[tuple[FieldPath, str]]:
        gateways = {each.name: each.gateway for each in self._shape.workloads}
        gateway = gateways.get(check.via)
        if gateway is None:
            yield (*place, "via"), f'there is no gateway "{check.via}" in this file'
        elif request.port not in gateway.ports:
            ports = ", ".join(map(str, gateway.ports))
            yield (
                (*place, "request"),
                f"the gateway {check.via} has no port {request.port}: {ports}",
            )
        if check.from_ != USER:
            yield (*place, "from"), f"what goes via a gateway comes from outside: write {USER}"

    def _target(self, request: Request) -> Workload | None:
        for workload in self._shape.workloads:
            if request.host in service_names(workload) and any(
                port.port == request.port for port in workload.ports
            ):
                return workload
        return None


def _is_directory(path: Path) -> bool:
    """Return whether there is a directory, whatever is there: Path.is_dir raises for odd links."""
    return os.path.isdir(path)  # noqa: PTH112


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
