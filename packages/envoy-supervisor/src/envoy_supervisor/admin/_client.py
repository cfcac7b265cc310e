"""A client for Envoy's admin interface, over loopback TCP or a Unix socket.

`http.client` in a thread: the calls are few and small, and every asynchronous HTTP client costs
several megabytes of memory beside each proxy. AdminAnswered are bounded in size and in total time.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import time
from urllib.parse import quote

from envoy_supervisor._address import Address, UnixAddress
from envoy_supervisor._errors import AdminError
from envoy_supervisor._json import JSON
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
        """Returns whether Envoy is live and serves; False if it cannot be reached."""
        try:
            status, _ = await self._request("GET", "/ready", max_bytes=4096)
        except AdminError:
            return False
        return status == 200

    async def server_info(self) -> dict[str, JSON]:
        """Returns `/server_info`: `state`, `version`, `command_line_options` and more."""
        return await self._get_object("/server_info")

    async def stats(
        self, filter: str | None = None, *, used_only: bool = False
    ) -> dict[str, int | str]:
        """Returns statistics by name; `filter` is a regular expression that Envoy applies."""
        query = ["usedonly"] if used_only else []
        if filter is not None:
            query.append(f"filter={quote(filter, safe='')}")
        body = await self._expect("GET", "/stats" + ("?" + "&".join(query) if query else ""))
        return parse_stats(body.decode("utf-8", "replace"))

    async def certs(self) -> list[dict[str, JSON]]:
        """Returns the certificates Envoy has loaded: entries with `ca_cert` and `cert_chain`."""
        certificates = (await self._get_object("/certs")).get("certificates", [])
        if not isinstance(certificates, list):
            raise AdminError(f"{self.address}/certs: `certificates` is not a list")
        return [each for each in certificates if isinstance(each, dict)]

    async def config_dump(self, query: str = "") -> dict[str, JSON]:
        """Returns the configuration in force; `query` as in `include_eds` or `resource=...`."""
        return await self._get_object("/config_dump" + (f"?{query}" if query else ""))

    async def listeners(self) -> dict[str, JSON]:
        """Returns where Envoy listens: `listener_statuses`, each with name and addresses."""
        return await self._get_object("/listeners?format=json")

    async def drain_listeners(
        self, *, graceful: bool = False, inbound_only: bool = False, skip_exit: bool = False
    ) -> None:
        """Begins draining: at once, or `graceful`ly, asking clients to leave while still accepting.

        Envoy 1.37 and newer exit at the end of a graceful drain unless `skip_exit`; older ones
        ignore that parameter.
        """
        words = [("inboundonly", inbound_only), ("graceful", graceful), ("skip_exit", skip_exit)]
        query = "&".join(word for word, wanted in words if wanted)
        await self._expect("POST", "/drain_listeners" + (f"?{query}" if query else ""))

    async def quit(self) -> None:
        """Asks Envoy to exit at once, without draining."""
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

    async def _request(self, method: str, path: str, *, max_bytes: int) -> tuple[int, bytes]:
        connection = _Connection(self.address, self._timeout_s)
        try:
            return await asyncio.to_thread(
                _exchange, connection, method, path, self._timeout_s, max_bytes
            )
        except asyncio.CancelledError:
            # The event loop waits for its threads when it ends: this one need not wait for Envoy.
            connection.abort()
            raise
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            # RuntimeError: no thread can be started
            raise AdminError(
                f"{method} {self.address}{path}: {str(error) or type(error).__name__}"
            ) from error


def _exchange(
    connection: _Connection, method: str, path: str, timeout_s: float, max_bytes: int
) -> tuple[int, bytes]:
    deadline = time.monotonic() + timeout_s
    try:
        connection.request(method, path, headers={"Connection": "close"})
        response = connection.getresponse()
        body = bytearray()
        while chunk := response.read1(65536):
            body += chunk
            if len(body) > max_bytes:
                raise AdminError(
                    f"{method} {connection.address}{path}: the answer is larger than "
                    f"{max_bytes} bytes"
                )
            # The socket's timeout bounds each read; a trickle is bounded only by this.
            if time.monotonic() > deadline:
                raise TimeoutError(f"no complete answer within {timeout_s:g} s")
        return response.status, bytes(body)
    finally:
        connection.close()


class _Connection(http.client.HTTPConnection):
    def __init__(self, address: Address | UnixAddress, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self.address = address
        self._timeout_s = timeout_s
        self._aborted = False

    def abort(self) -> None:
        """Ends the exchange, now or later. Called from another thread."""
        self._aborted = True
        if self.sock is not None:
            with contextlib.suppress(OSError):  # closed meanwhile
                self.sock.shutdown(socket.SHUT_RDWR)

    def connect(self) -> None:
        self._open()
        if self._aborted:
            raise ConnectionAbortedError("the caller does not wait any more")

    def _open(self) -> None:
        match self.address:
            case Address(host=host, port=port):
                self.sock = socket.create_connection((host, port), self._timeout_s)
            case UnixAddress(path=path):
                self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self.sock.settimeout(self._timeout_s)
                self.sock.connect(str(path))
