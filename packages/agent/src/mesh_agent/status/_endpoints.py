"""What the status server answers: readiness to everyone, the rest to this machine only.

Source of paths and codes: Istio's status server on port 15020.
"""

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from envoy_supervisor import EnvoySupervisorError
from mesh_agent.status._http import Request, Response
from mesh_lifecycle import Readiness, Stopping

log = logging.getLogger(__name__)

Route = Callable[[Request], Awaitable[Response]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One path: how it is called, by whom, and what it does."""

    method: str
    loopback_only: bool
    answer: Route


class StatusEndpoints:
    """Answers requests by path; unknown paths, methods and callers get 404, 405 and 403."""

    def __init__(
        self,
        readiness: Readiness,
        stopping: Stopping,
        *,
        drain: Callable[[], Awaitable[None]],
        restart: Callable[[], Awaitable[bool]],
        describe: Callable[[], Awaitable[Mapping[str, object]]],
        scrape: Route,
        names: Callable[[], Awaitable[bytes | None]],
        metrics_local_only: bool = False,
    ) -> None:
        self._readiness = readiness
        self._stopping = stopping
        self._drain = drain
        self._restart = restart
        self._describe = describe
        self._names = names
        self._said = ""
        self._endpoints: Mapping[str, Endpoint] = {
            "/healthz/ready": Endpoint(method="GET", loopback_only=False, answer=self._ready),
            "/debug/status": Endpoint(method="GET", loopback_only=True, answer=self._status),
            "/debug/ndsz": Endpoint(method="GET", loopback_only=True, answer=self._name_table),
            "/quitquitquit": Endpoint(method="POST", loopback_only=True, answer=self._quit),
            "/drain": Endpoint(method="POST", loopback_only=True, answer=self._start_drain),
            "/restart": Endpoint(method="POST", loopback_only=True, answer=self._restart_envoy),
            **{
                path: Endpoint(method="GET", loopback_only=metrics_local_only, answer=scrape)
                for path in ("/stats/prometheus", "/metrics")
            },
        }

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
        return await endpoint.answer(request)

    async def _ready(self, _: Request) -> Response:
        reasons = "; ".join(self._readiness.reasons())
        if reasons != self._said:
            self._said = reasons
            if reasons:
                log.warning("not ready", extra={"reasons": reasons})
            else:
                log.info("ready")
        if reasons:
            return Response.text(f"{reasons}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return Response()

    async def _status(self, _: Request) -> Response:
        return Response.json(await self._describe())

    async def _name_table(self, _: Request) -> Response:
        table = await self._names()
        if table is None:
            reason = (
                "no names are answered here; ISTIO_META_DNS_CAPTURE=true makes the agent do so\n"
            )
            return Response.text(reason, HTTPStatus.NOT_FOUND)
        return Response(body=table + b"\n", content_type="application/json")

    async def _quit(self, _: Request) -> Response:
        self._stopping.request("/quitquitquit")
        return Response.text("stopping\n")

    async def _start_drain(self, _: Request) -> Response:
        try:
            await self._drain()
        except EnvoySupervisorError as error:
            reason = f"envoy was not told to drain: {error}\n"
            return Response.text(reason, HTTPStatus.SERVICE_UNAVAILABLE)
        return Response.text("draining\n")

    async def _restart_envoy(self, _: Request) -> Response:
        try:
            replaced = await self._restart()
        except EnvoySupervisorError as error:
            return Response.text(f"envoy was not replaced: {error}\n", HTTPStatus.CONFLICT)
        if replaced:
            return Response.text("a new envoy has taken over\n")
        return Response.text("nothing has changed, envoy is not restarted\n")
