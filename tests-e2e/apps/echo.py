"""A program for tests: tells what it got, at once or after a while. Standard library only.

`/` answers with JSON: who answers, and the request's headers. `/held` does so once somebody has
asked for `/release`.
"""

import asyncio
import json
import os
from contextlib import AsyncExitStack

released = asyncio.Event()


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request, *lines = head.rstrip().split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines)
            }
            if length := int(headers.get("content-length", "0")):
                await reader.readexactly(length)
            path = request.split(" ")[1]
            if path == "/held":
                await released.wait()
            elif path == "/release":
                released.set()
            answer = {"served-by": os.environ["MESH_WORKLOAD"], "headers": headers}
            body = json.dumps(answer).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
                + str(len(body)).encode()
                + b"\r\n\r\n"
                + body
            )
            await writer.drain()
            if headers.get("connection", "").lower() == "close":
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    ports = os.environ.get("PORTS", os.environ["PORT"]).split()
    async with AsyncExitStack() as stack:
        for port in ports:
            server = await asyncio.start_server(handle, os.environ["HOST"], int(port))
            await stack.enter_async_context(server)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
