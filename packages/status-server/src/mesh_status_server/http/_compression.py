"""gzip for callers that ask for it, piece by piece."""

from mesh_status_server.http._messages import Send

# Metrics shrink to a tenth at any level; the lowest takes the least time on the event loop.
_LEVEL = 1


def takes_gzip(accept_encoding: str) -> bool:
    """Return whether a caller takes gzip. Source: RFC 9110, section 12.5.3."""
    by_name: dict[str, float] = {}
    for item in accept_encoding.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        by_name[name] = quality(parameters)
    return by_name.get("gzip", by_name.get("x-gzip", by_name.get("*", 0.0))) > 0


def quality(parameters: list[str]) -> float:
    """Return the weight among the parameters of an Accept header's item; 0 if it is no number."""
    for parameter in parameters:
        name, _, text = parameter.partition("=")
        if name.strip() == "q":
            try:
                number = float(text)
            except ValueError:
                return 0.0
            return number if 0 <= number <= 1 else 0.0
    return 1.0


class GzipSend:
    """Compresses what is sent; `finish` sends the end."""

    def __init__(self, send: Send) -> None:
        import zlib

        self._send = send
        self._compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)

    async def __call__(self, data: bytes) -> None:
        if compressed := self._compressor.compress(data):
            await self._send(compressed)

    async def finish(self) -> None:
        """Send what is left."""
        await self._send(self._compressor.flush())
