"""A client for Envoy's admin interface, over loopback TCP or a Unix socket.

Answers are bounded in size and in total time.
"""

from __future__ import annotations

import asyncio
import json
import os
from urllib.parse import quote

import h11

from envoy_supervisor._address import Address, UnixAddress
from envoy_supervisor._errors import AdminError
from envoy_supervisor._json import JSON
from envoy_supervisor.admin._exchange import exchange
from envoy_supervisor.admin._stats import parse_stats

MAX_RESPONSE_BYTES = 256 * 1024 * 1024


class AdminClient:
    """Every method raises `AdminError` when Envoy cannot be reached or answers with an error."""

    def __init__(
        self,
        address: Address | UnixAddress,
        *,
        timeout_s: float = 5.0,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._max_response_bytes = max_response_bytes

    async def ready(self) -> bool:
        """Return whether Envoy is live and serves; False if it cannot be reached."""
        try:
            status, _ = await self._request("GET", "/ready", max_bytes=4096)
        except AdminError:
            return False
        return status == 200

    async def server_info(self) -> dict[str, JSON]:
        """Return `/server_info`: `state`, `version`, `command_line_options` and more."""
        return await self._get_object("/server_info")

    async def stats(
        self, filter: str | None = None, *, used_only: bool = False
    ) -> dict[str, int | str]:
        """Return statistics by name; `filter` is a regular expression that Envoy applies."""
        query = ["usedonly"] if used_only else []
        if filter is not None:
            query.append(f"filter={quote(filter, safe='')}")
        body = await self._expect("GET", "/stats" + ("?" + "&".join(query) if query else ""))
        return parse_stats(body.decode("utf-8", "replace"))

    async def certs(self) -> list[dict[str, JSON]]:
        """Return the certificates Envoy has loaded: entries with `ca_cert` and `cert_chain`."""
        certificates = (await self._get_object("/certs")).get("certificates", [])
        if not isinstance(certificates, list):
            raise AdminError(f"{self.address}/certs: `certificates` is not a list")
        return [each for each in certificates if isinstance(each, dict)]

    async def config_dump(self, query: str = "") -> dict[str, JSON]:
        """Return the configuration in force; `query` as in `include_eds` or `resource=...`."""
        return await self._get_object("/config_dump" + (f"?{query}" if query else ""))

    async def listeners(self) -> dict[str, JSON]:
        """Return where Envoy listens: `listener_statuses`, each with name and addresses."""
        return await self._get_object("/listeners?format=json")

    async def drain_listeners(
        self, *, graceful: bool = False, inbound_only: bool = False, skip_exit: bool = False
    ) -> None:
        """Begin draining: at once, or `graceful`ly, asking clients to leave while still accepting.

        Envoy 1.37 and newer exit at the end of a graceful drain unless `skip_exit`; older ones
        ignore that parameter.
        """
        words = [("inboundonly", inbound_only), ("graceful", graceful), ("skip_exit", skip_exit)]
        query = "&".join(word for word, wanted in words if wanted)
        await self._expect("POST", "/drain_listeners" + (f"?{query}" if query else ""))

    async def quit(self) -> None:
        """Ask Envoy to exit at once, without draining."""
        await self._expect("POST", "/quitquitquit")

    async def _get_object(self, path: str) -> dict[str, JSON]:
        body = await self._expect("GET", path)
        try:
            value: object = json.loads(body)
        except ValueError as error:
            raise AdminError(f"{self.address}{path}: the answer is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise AdminError(f"{self.address}{path}: the answer is not a JSON object")
        return value

    async def _expect(self, method: str, path: str) -> bytes:
        status, body = await self._request(method, path, max_bytes=self._max_response_bytes)
        if status != 200:
            text = body[:200].decode("utf-8", "replace").strip()
            raise AdminError(f"{method} {self.address}{path}: status {status}: {text}")
        return body

    @property
    def _subject(self) -> str:
        sort = "socket" if isinstance(self.address, UnixAddress) else "port"
        return f"Envoy's admin {sort} {self.address}"

    async def _request(self, method: str, path: str, *, max_bytes: int) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await exchange(self.address, method, path, max_bytes=max_bytes)
        except TimeoutError as error:
            # Without the query, which is long and tells a reader of this nothing.
            raise AdminError(
                f"{self._subject} has not answered {method} {path.partition('?')[0]} completely "
                f"within {self._timeout_s:g} s"
            ) from error
        except OSError as error:
            raise AdminError(f"{self._subject} does not answer ({_reason(error)})") from error
        except h11.ProtocolError as error:
            raise AdminError(
                f"{method} {self.address}{path}: {str(error) or type(error).__name__}"
            ) from error


def _reason(error: OSError) -> str:
    """Return in words why there is no connection: what asyncio says of it repeats the address."""
    words = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return words[:1].lower() + words[1:]
