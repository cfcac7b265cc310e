"""The endpoints of the status server: readiness for every caller, the rest for this machine only.

Source of paths and status codes: Istio's status server on port 15020.
"""

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from envoy_supervisor import EnvoySupervisorError
from mesh_agent.status._http import Request, Response
from mesh_lifecycle import Readiness, Stopping

log = logging.getLogger(__name__)

Answer = Callable[[Request], Awaitable[Response]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyCommands:
    """The commands for Envoy; both raise `EnvoySupervisorError`.

    drain: asks Envoy's clients to leave.
    restart: replaces Envoy; returns False if what it is started with has not changed.
    """

    drain: Callable[[], Awaitable[None]]
    restart: Callable[[], Awaitable[bool]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentEndpoints:
    """The answers that only an agent whose parts have all started can give.

    describe: returns the agent's status.
    scrape: answers a request for metrics.
    name_table: returns the name table as JSON, None if the agent answers no DNS queries.
    explain_dns: tells how a DNS query is answered.
    envoy: None if the agent runs no Envoy.
    """

    describe: Callable[[], Awaitable[Mapping[str, object]]]
    scrape: Answer
    name_table: Callable[[], Awaitable[bytes | None]]
    explain_dns: Answer
    envoy: EnvoyCommands | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    method: str
    loopback_only: bool
    answer: Answer


class StatusEndpoints:
    """Answers requests by path; unknown paths, methods and callers get 404, 405 and 403.

    `/healthz/ready` and `/quitquitquit` answer from the beginning. All others answer 503 until
    `agent_started` is called.
    """

    def __init__(
        self, readiness: Readiness, stopping: Stopping, *, metrics_local_only: bool = False
    ) -> None:
        self._readiness = readiness
        self._stopping = stopping
        self._agent: AgentEndpoints | None = None
        self._logged_reasons = ""
        self._endpoints: Mapping[str, _Endpoint] = {
            "/healthz/ready": _Endpoint(method="GET", loopback_only=False, answer=self._ready),
            "/debug/status": _Endpoint(method="GET", loopback_only=True, answer=self._status),
            "/debug/ndsz": _Endpoint(method="GET", loopback_only=True, answer=self._name_table),
            "/debug/dns": _Endpoint(method="GET", loopback_only=True, answer=self._explain_dns),
            "/quitquitquit": _Endpoint(method="POST", loopback_only=True, answer=self._quit),
            "/drain": _Endpoint(method="POST", loopback_only=True, answer=self._drain),
            "/restart": _Endpoint(method="POST", loopback_only=True, answer=self._restart),
            **{
                path: _Endpoint(method="GET", loopback_only=metrics_local_only, answer=self._scrape)
                for path in ("/stats/prometheus", "/metrics")
            },
        }

    def agent_started(self, agent: AgentEndpoints) -> None:
        """Answer every path from now on."""
        self._agent = agent

    async def __call__(self, request: Request) -> Response:
        endpoint = self._endpoints.get(request.path)
        if endpoint is None:
            paths = ", ".join(self._endpoints)
            return Response.text(f"no such path; there are {paths}\n", HTTPStatus.NOT_FOUND)
        if endpoint.loopback_only and not request.from_loopback:
            return Response.text("only for callers on this machine\n", HTTPStatus.FORBIDDEN)
        if request.method != endpoint.method:
            return dataclasses.replace(
                Response.text(f"use {endpoint.method}\n", HTTPStatus.METHOD_NOT_ALLOWED),
                headers={"allow": endpoint.method},
            )
        try:
            return await endpoint.answer(request)
        except _StillStarting:
            reason = "the agent is still starting; /healthz/ready tells what it waits for\n"
            return Response.text(reason, HTTPStatus.SERVICE_UNAVAILABLE)

    def _started(self) -> AgentEndpoints:
        if self._agent is None:
            raise _StillStarting
        return self._agent

    async def _ready(self, _: Request) -> Response:
        reasons = "; ".join(self._readiness.reasons())
        if reasons != self._logged_reasons:
            self._logged_reasons = reasons
            if reasons:
                log.warning("not ready", extra={"reasons": reasons})
            else:
                log.info("ready")
        if reasons:
            return Response.text(f"{reasons}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return Response()

    async def _quit(self, _: Request) -> Response:
        self._stopping.request("/quitquitquit")
        return Response.text("stopping\n")

    async def _status(self, _: Request) -> Response:
        return Response.json(await self._started().describe())

    async def _scrape(self, request: Request) -> Response:
        return await self._started().scrape(request)

    async def _name_table(self, _: Request) -> Response:
        table = await self._started().name_table()
        if table is None:
            reason = (
                "the agent answers no DNS queries; ISTIO_META_DNS_CAPTURE=true makes it do so\n"
            )
            return Response.text(reason, HTTPStatus.NOT_FOUND)
        return Response(body=table + b"\n", content_type="application/json")

    async def _explain_dns(self, request: Request) -> Response:
        return await self._started().explain_dns(request)

    async def _drain(self, _: Request) -> Response:
        envoy = self._started().envoy
        try:
            if envoy is None:
                raise EnvoySupervisorError("the agent runs no Envoy")
            await envoy.drain()
        except EnvoySupervisorError as error:
            reason = f"envoy was not told to drain: {error}\n"
            return Response.text(reason, HTTPStatus.SERVICE_UNAVAILABLE)
        return Response.text("draining\n")

    async def _restart(self, _: Request) -> Response:
        envoy = self._started().envoy
        try:
            if envoy is None:
                raise EnvoySupervisorError("the agent runs no Envoy")
            replaced = await envoy.restart()
        except EnvoySupervisorError as error:
            return Response.text(f"envoy was not replaced: {error}\n", HTTPStatus.CONFLICT)
        if replaced:
            return Response.text("a new envoy has taken over\n")
        return Response.text("nothing has changed, envoy is not restarted\n")


class _StillStarting(Exception):
    """Not all parts of the agent have started."""
