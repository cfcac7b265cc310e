"""A real Envoy of a scene: calls through it, its log, its counters and its configuration."""

import asyncio
import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from planes import Envoy, Process, eventually
from scenarios._answers import Answer


class _AllAt(AbstractResolver):
    """Finds every name at one address."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=self._address,
                port=port,
                family=family,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class MeshEnvoy:
    """A sidecar or a gateway."""

    name: str
    node_id: str
    address: str
    """Of its workload."""
    app_address: str
    outbound_address: str
    """Where it listens for its workload; for its clients, if it is a gateway."""
    envoy: Envoy
    session: aiohttp.ClientSession

    @property
    def process(self) -> Process:
        return self.envoy.process

    async def get(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        **options: Any,
    ) -> Answer:
        """Ask the listener of the URL's port for the URL's host; redirects are not followed.

        For HTTPS give `ssl=` and what else aiohttp takes.
        """
        async with self.session.request(
            method,
            url,
            headers=headers,
            data=body,
            allow_redirects=False,
            **options,
        ) as response:
            return Answer(
                status=response.status,
                headers={name.lower(): value for name, value in response.headers.items()},
                body=await response.text(errors="replace"),
                header_list=tuple(response.headers.items()),
            )

    async def send(self, port: int, data: bytes = b"", *, address: str | None = None) -> bytes:
        """Send over TCP and return all that comes until a line ends or the other side closes."""
        reader, writer = await asyncio.open_connection(address or self.outbound_address, port)
        try:
            writer.write(data)
            await writer.drain()
            return await reader.readline()
        finally:
            writer.close()

    async def access_log(self) -> list[dict[str, Any]]:
        """Return the entries of the access log so far, each a JSON object."""
        found: list[dict[str, Any]] = []
        for line in "".join(self.process.output).splitlines():
            if line.startswith("{"):
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue
        return found

    async def logged(self, **fields: object) -> dict[str, Any]:
        """Wait for an entry of the access log with these values, and return it."""

        async def look() -> dict[str, Any] | None:
            for entry in reversed(await self.access_log()):
                if all(entry.get(name) == value for name, value in fields.items()):
                    return dict(entry)
            return None

        found: dict[str, Any] = await eventually(look, what=f"a log entry with {fields}")
        return found

    async def stat(self, name: str) -> int:
        """Return a counter or gauge by its exact name; 0 if there is none."""
        return (await self.stats(re.escape(name))).get(name, 0)

    async def stats(self, pattern: str) -> dict[str, int]:
        """Return counters and gauges whose whole name matches an RE2 pattern."""
        filtered = quote(f"^(?:{pattern})$", safe="")
        text: str = await self.envoy.get(f"/stats?filter={filtered}")
        found = (line.rpartition(": ") for line in str(text).splitlines())
        return {name: int(value) for name, _, value in found if value.isdigit()}

    async def dump(self) -> Any:
        """Return the config dump, with endpoints."""
        return await self.envoy.get("/config_dump?include_eds")


def session_at(address: str) -> aiohttp.ClientSession:
    """Return a session that finds every name at the address and keeps no connections."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            resolver=_AllAt(address), use_dns_cache=False, force_close=True, limit=0
        ),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )
