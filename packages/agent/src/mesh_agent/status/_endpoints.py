"""The endpoints of the status server: readiness for every caller, the rest for this machine only.

Source of paths and status codes: Istio's status server on port 15020.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

import msgspec

from envoy_supervisor import EnvoySupervisorError
from mesh_agent.logs._level_changes import change_levels, levels
from mesh_lifecycle import LogLevelError, Readiness, Stopping
from mesh_status_server import AppProbes, Endpoint, Endpoints, Handler, Reply, Request, Response

log = logging.getLogger(__name__)

CONTROL_PLANE_PATH = "/debug/control-plane"


class EnvoyCommands(msgspec.Struct, frozen=True, kw_only=True):
    """The commands for Envoy; drain and restart raise `EnvoySupervisorError`.

    drain: asks Envoy's clients to leave.
    restart: replaces Envoy; returns False if what it is started with has not changed.
    config_dump: answers with Envoy's configuration.
    """

    drain: Callable[[], Awaitable[None]]
    restart: Callable[[], Awaitable[bool]]
    config_dump: Handler


class AgentEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The answers that only an agent whose parts have all started can give.

    describe: returns the agent's status.
    scrape: answers a request for metrics.
    configuration: returns the effective configuration, each value with where it comes from.
    name_table: returns the name table as JSON, None if the agent answers no DNS queries.
    explain_dns: tells how a DNS query is answered.
    control_plane_debug: asks the control plane.
    envoy: None if the agent runs no Envoy.
    """

    describe: Callable[[], Awaitable[Mapping[str, object]]]
    scrape: Handler
    configuration: Callable[[], Mapping[str, object]]
    name_table: Callable[[], Awaitable[bytes | None]]
    explain_dns: Handler
    control_plane_debug: Handler
    envoy: EnvoyCommands | None


class StatusEndpoints:
    """Answers requests by path; unknown paths, methods and callers get 404, 405 and 403.

    `/healthz/ready`, `/quitquitquit` and the application's probes answer from the beginning. All
    others answer 503 until `agent_started` is called.
    """

    def __init__(
        self,
        readiness: Readiness,
        stopping: Stopping,
        *,
        app_probes: AppProbes,
        metrics_local_only: bool = False,
    ) -> None:
        self._readiness = readiness
        self._stopping = stopping
        self._agent: AgentEndpoints | None = None
        self._logged_reasons = ""
        scrape = Endpoint(self._scrape, loopback_only=metrics_local_only)
        probe = Endpoint(app_probes.answer)
        control_plane = Endpoint(self._control_plane, loopback_only=True)
        self._endpoints = Endpoints(
            {
                "/healthz/ready": Endpoint(self._ready),
                "/stats/prometheus": scrape,
                "/metrics": scrape,
                "/debug/status": Endpoint(self._status, loopback_only=True),
                "/debug/logging": Endpoint(self._logging, ("GET", "POST"), loopback_only=True),
                "/debug/config": Endpoint(self._configuration, loopback_only=True),
                "/debug/ndsz": Endpoint(self._name_table, loopback_only=True),
                "/debug/dns": Endpoint(self._explain_dns, loopback_only=True),
                CONTROL_PLANE_PATH: control_plane,
                "/debug/config_dump": Endpoint(self._config_dump, loopback_only=True),
                "/quitquitquit": Endpoint(self._quit, ("POST",), loopback_only=True),
                "/drain": Endpoint(self._drain, ("POST",), loopback_only=True),
                "/restart": Endpoint(self._restart, ("POST",), loopback_only=True),
            },
            beginnings={
                "/app-health/": probe,
                "/app-lifecycle/": probe,
                "/debug/pprof/": Endpoint(_no_profiles),
                f"{CONTROL_PLANE_PATH}/": control_plane,
            },
        )

    def agent_started(self, agent: AgentEndpoints) -> None:
        """Answer every path from now on."""
        self._agent = agent

    async def __call__(self, request: Request) -> Reply:
        try:
            return await self._endpoints(request)
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
        details = (
            f"{name}: {detail}\n" for name, detail in self._readiness.details().items() if detail
        )
        return Response.text("".join(details))

    async def _quit(self, _: Request) -> Response:
        self._stopping.request("/quitquitquit")
        return Response.text("stopping\n")

    async def _logging(self, request: Request) -> Response:
        if request.method != "POST" and request.query:
            return Response.text("use POST to set levels\n", HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            change_levels(request.query)
        except LogLevelError as error:
            return Response.text(f"{error}\n", HTTPStatus.BAD_REQUEST)
        return Response.json(levels())

    async def _status(self, _: Request) -> Response:
        return Response.json(await self._started().describe())

    async def _configuration(self, _: Request) -> Response:
        return Response.json(self._started().configuration())

    async def _scrape(self, request: Request) -> Reply:
        return await self._started().scrape(request)

    async def _name_table(self, _: Request) -> Response:
        table = await self._started().name_table()
        if table is None:
            reason = (
                "the agent answers no DNS queries; ISTIO_META_DNS_CAPTURE=true makes it do so\n"
            )
            return Response.text(reason, HTTPStatus.NOT_FOUND)
        return Response(body=table + b"\n", content_type="application/json")

    async def _explain_dns(self, request: Request) -> Reply:
        return await self._started().explain_dns(request)

    async def _control_plane(self, request: Request) -> Reply:
        return await self._started().control_plane_debug(request)

    async def _config_dump(self, request: Request) -> Reply:
        envoy = self._started().envoy
        if envoy is None:
            return Response.text("the agent runs no Envoy\n", HTTPStatus.NOT_FOUND)
        return await envoy.config_dump(request)

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


async def _no_profiles(_: Request) -> Response:
    reason = (
        "this agent is no Go program and has no profiles of that kind; on its machine, "
        "`py-spy dump --pid` and `py-spy record --pid` show what it does\n"
    )
    return Response.text(reason, HTTPStatus.NOT_FOUND)


class _StillStarting(Exception):
    """Not all parts of the agent have started."""
