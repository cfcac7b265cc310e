"""Requests that a test sends as a workload, through that workload's Envoy."""

import json as json_module
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from mesh_local._errors import FaultError, NoAnswer
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.config._service_names import service_names
from mesh_local.observation._http import fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer; the names of its headers are lower-case."""

    status: int
    headers: Mapping[str, str]
    text: str
    elapsed_s: float

    def json(self) -> Any:
        """Return the body's JSON; raises `ValueError` if it is none."""
        return json_module.loads(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Route:
    """Where a request goes: an address of the sender's Envoy, and what the request names."""

    host: str
    port: int
    target: str
    authority: str


async def send(
    plan: MeshPlan,
    sender: Instance,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None,
    body: bytes,
    timeout_s: float,
) -> Response:
    """Send a request through the sender's Envoy; raises `NoAnswer`, `FaultError`."""
    route = _route(plan, sender, url)
    try:
        answer = await fetch(
            route.host,
            route.port,
            method=method,
            target=route.target,
            authority=route.authority,
            headers=headers or {},
            body=body,
            timeout_s=timeout_s,
        )
    except NoAnswer as error:
        raise NoAnswer(f"{method} {url} as {sender.name}: {error}") from None
    return Response(
        status=answer.status,
        headers=answer.headers,
        text=answer.body,
        elapsed_s=answer.elapsed_s,
    )


def _route(plan: MeshPlan, sender: Instance, url: str) -> _Route:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise FaultError(f'"{url}" is not a URL') from None
    if parts.scheme != "http" or not parts.hostname:
        raise FaultError(f'"{url}" must begin with http:// and a host; Envoy makes it mutual TLS')
    port = port or _first_port(plan, parts.hostname) or 80
    authority = parts.hostname if port == 80 else f"{parts.hostname}:{port}"
    outbound = sender.addresses.outbound
    if proxy_port := plan.file.mesh.http_proxy_port:
        target = urlunsplit(("http", authority, parts.path or "/", parts.query, ""))
        return _Route(host=outbound, port=proxy_port, target=target, authority=authority)
    target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
    return _Route(host=outbound, port=port, target=target, authority=authority)


def _first_port(plan: MeshPlan, host: str) -> int | None:
    """Return the port for a URL that names none: 80 if the service has it, else its first."""
    for each in plan.instances:
        served = [port.port for port in each.workload.ports]
        if served and host in service_names(each.workload):
            return 80 if 80 in served else served[0]
    return None
