"""Requests that a test sends as a workload, through that workload's Envoy."""

import json as json_module
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mesh_local._errors import NoAnswer
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.observation._http import fetch
from mesh_local.observation._routes import route


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
    way = route(plan, sender, url)
    try:
        answer = await fetch(
            way.host,
            way.port,
            method=method,
            target=way.target,
            authority=way.authority,
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
