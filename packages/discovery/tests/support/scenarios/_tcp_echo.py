"""A TCP server that says its version and sends back what it was sent."""

import asyncio
import ssl
from dataclasses import dataclass, field


@dataclass
class TcpEcho:
    """A TCP upstream: a banner, if it has one; then each line back, after its version."""

    version: str
    address: str
    port: int
    banner: bytes = b""
    peers: list[str] = field(default_factory=list)
    """The address of each connection's other side."""
    server_names: list[str | None] = field(default_factory=list)
    _context: ssl.SSLContext | None = None
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def count(self) -> int:
        """How many connections came."""
        return len(self.peers)

    async def accept(self) -> None:
        """Open the port."""
        self._server = await asyncio.start_server(
            self._serve, self.address, self.port, ssl=self._context
        )

    async def refuse(self) -> None:
        """Close the port and all connections."""
        if self._server is None:
            return
        self._server.close()
        for each in self._open:
            each.transport.abort()
        await self._server.wait_closed()
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        host, port = writer.get_extra_info("peername")[:2]
        self.peers.append(f"{host}:{port}")
        try:
            if self.banner:
                writer.write(self.banner)
            while line := await reader.readline():
                writer.write(self.version.encode() + b" " + line)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()
