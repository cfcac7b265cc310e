"""The status endpoints of an agent whose parts are played."""

from envoy_supervisor import AdminError
from mesh_agent.status._endpoints import AgentEndpoints, EnvoyCommands, StatusEndpoints
from mesh_lifecycle import Readiness, Stopping
from mesh_probes import Probe, TcpSocket
from mesh_status_server import AppProbes, Request, Response


class Parts:
    def __init__(
        self,
        stopping: Stopping,
        *,
        local_metrics: bool = False,
        started: bool = True,
        envoy: bool = True,
    ) -> None:
        self.stopping = stopping
        self.readiness = Readiness(stopping)
        self.drained = 0
        self.table: bytes | None = None
        self.deaf: AdminError | None = None
        self.changed: bool | Exception = True
        probes = {"/app-health/web/livez": Probe(action=TcpSocket(port=1))}
        self.endpoints = StatusEndpoints(
            self.readiness,
            stopping,
            app_probes=AppProbes(probes, host="127.0.0.1", status_port=15020),
            metrics_local_only=local_metrics,
        )
        commands = EnvoyCommands(
            drain=self.drain, restart=self.restart, config_dump=self.config_dump
        )
        if started:
            self.endpoints.agent_started(
                AgentEndpoints(
                    describe=self.describe,
                    scrape=self.scrape,
                    configuration=dict,
                    name_table=self.names,
                    explain_dns=self.explain,
                    control_plane_debug=self.explain,
                    envoy=commands if envoy else None,
                )
            )

    async def describe(self) -> dict[str, object]:
        return {"workload": "web.shop"}

    async def names(self) -> bytes | None:
        return self.table

    async def explain(self, request: Request) -> Response:
        return Response.text(f"explained {request.query}")

    async def drain(self) -> None:
        if self.deaf is not None:
            raise self.deaf
        self.drained += 1

    async def restart(self) -> bool:
        if isinstance(self.changed, Exception):
            raise self.changed
        return self.changed

    async def config_dump(self, request: Request) -> Response:
        return Response.text(f"dump {request.query}")

    async def scrape(self, _: Request) -> Response:
        return Response.text("metrics")

    async def ask(self, method: str, path: str, peer: str = "127.0.0.1") -> tuple[int, str]:
        response = await self.endpoints(Request(method=method, path=path, peer=peer))
        assert isinstance(response, Response)
        return int(response.status), response.body.decode()
