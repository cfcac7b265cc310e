"""The parts of a running agent as far as they are started, for those who ask it something."""

import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import envoy_supervisor
import xds_proxy
from envoy_supervisor import Address, UnixAddress
from mesh_agent._config import AgentConfig
from mesh_agent.envoy._restarts import Restarts
from mesh_agent.identity._token import described_token
from mesh_agent.identity._workload_secrets import ForeignSecrets, OwnSecrets
from mesh_agent.status import _metrics as metrics
from mesh_agent.status._exposition import Family, gauge
from mesh_identity import LearnedRoots
from mesh_lifecycle import Readiness
from mesh_listening import Port

if TYPE_CHECKING:
    from mesh_dnsproxy import DnsServer


class AgentView:
    """Everything that the status server shows and does; the agent fills it in as it starts."""

    def __init__(self, config: AgentConfig, readiness: Readiness) -> None:
        self._config = config
        self._readiness = readiness
        self.secrets: OwnSecrets | ForeignSecrets | None = None
        self.learned_roots: LearnedRoots | None = None
        self.relay: xds_proxy.Relay | None = None
        self.envoy: envoy_supervisor.Envoy | None = None
        self.restarts: Restarts | None = None
        self.names: DnsServer | None = None
        self.ports: list[Port] = []
        """The status server's; those of the secrets and of the relay are asked there."""

    async def drain(self) -> None:
        if self.envoy is None:
            raise envoy_supervisor.AdminError("no envoy is running")
        await self.envoy.drain()

    async def restart(self) -> bool:
        if self.restarts is None:
            raise envoy_supervisor.RestartRefused("no envoy is running")
        return await self.restarts.restart()

    def obstacle_to_restart(self) -> str | None:
        """Why a new Envoy would not get its configuration now."""
        if self.relay is None or self._config.bootstrap_files.whole is not None:
            return None
        status = self.relay.status
        if status.connected:
            return None
        return (
            "the control plane, where a new envoy gets its configuration, does not answer "
            f"({status.last_error or 'no connection yet'}): try again when it does"
        )

    def control_plane_said(self) -> str:
        """How it stands with the control plane, in words."""
        if self.relay is None:
            return "it has not been called yet"
        status = self.relay.status
        if status.connected:
            return "it answers, and has sent none that is complete"
        return status.last_error or "it has not answered yet"

    def metrics(self) -> Iterator[Family]:
        """The agent's own, as far as there is something to tell."""
        yield gauge("mesh_agent_ready", "1 if the workload is ready.", float(self._readiness.ready))
        ready_at = self._readiness.first_ready_at
        if ready_at is not None:
            yield gauge(
                "istio_agent_startup_duration_seconds",
                "Seconds from the process's start until it was ready.",
                metrics.process_age_s() - (time.monotonic() - ready_at),
            )
        if isinstance(self.secrets, OwnSecrets):
            yield from metrics.certificate_families(
                self.secrets.certificates.status,
                self.secrets.serials_in_use(),
                now=metrics.utc_now(),
            )
        if self.relay is not None:
            yield from metrics.relay_families(self.relay.status, self.relay.counters)
        if self.envoy is not None:
            yield from metrics.envoy_families(self.envoy.status)
        if self.names is not None:
            from mesh_agent.status._dns_metrics import (
                dns_families,  # it brings the DNS server along
            )

            yield from dns_families(self.names.counts)
        yield from metrics.listener_families(port.counts() for port in self._every_port())
        yield from metrics.process_families(metrics.this_process())

    def _every_port(self) -> Iterator[Port]:
        yield from self.ports
        if isinstance(self.secrets, OwnSecrets) and self.secrets.server is not None:
            yield self.secrets.server.port
        if self.relay is not None:
            yield self.relay.port

    def envoy_metrics(self) -> Address | UnixAddress | None:
        """Where Envoy tells its own; None where nobody wants them, or there is none to tell."""
        if self.envoy is None or not self._config.status.envoy_metrics:
            return None
        return self.envoy.admin.address

    async def name_table(self) -> bytes | None:
        """The table that names are answered from, as JSON; None if none are answered."""
        return await self.names.table_json() if self.names is not None else None

    async def describe(self) -> Mapping[str, object]:
        """Everything, for a person who asks."""
        return {
            "workload": f"{self._config.identity.pod_name}.{self._config.identity.namespace}",
            "node_id": self._config.identity.node_id,
            "spiffe_id": str(self._config.spiffe_id),
            "ready": self._readiness.ready,
            "reasons": self._readiness.reasons(),
            "certificate": {} if self.secrets is None else self.secrets.describe(),
            "learned_roots": {} if self.learned_roots is None else self.learned_roots.describe(),
            "token": await described_token(self._config.authority),
            "xds": self._xds(),
            "envoy": self._envoy(),
            "names": self._names(),
        }

    def _names(self) -> Mapping[str, object]:
        if self.names is None:
            return {}
        return {
            "addresses": [f"{each.host}:{each.port}" for each in self.names.addresses],
            "upstreams": [str(each) for each in self.names.upstreams],
            "table": self.names.ready,
        }

    def _xds(self) -> Mapping[str, object]:
        if self.relay is None:
            return {}
        status = self.relay.status
        return {
            "control_plane": self._config.relay.upstream.address,
            "connected": status.connected,
            "since": status.since,
            "last_error": status.last_error,
            "streams": status.streams,
            "types": {
                type_url: {
                    "version": known.version,
                    "acked": known.acked,
                    "nack": known.nack,
                    "at": known.at,
                }
                for type_url, known in status.types.items()
            },
        }

    def _envoy(self) -> Mapping[str, object]:
        if self.envoy is None:
            return {"state": "not started"}
        return dataclasses.asdict(self.envoy.status)
