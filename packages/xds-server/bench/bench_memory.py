"""What of a peak of clients stays in the server's memory, and whether it grows with each.

Compared is with a server that one client has come to and gone from: by then everything is loaded
that the first client needs. Run as a script; the server is started with `SERVER_ENVIRONMENT`, and
then as usual.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
from collections.abc import Mapping

import uvloop
from bench_push import Server, close, connect, server_process

from xds_server import SERVER_ENVIRONMENT

QUIET_S = 4.0
"""Longer than the server waits before it gives memory back."""

ENVIRONMENTS: dict[str, Mapping[str, str]] = {
    "SERVER_ENVIRONMENT": SERVER_ENVIRONMENT,
    "as usual": {},
}


async def megabytes(server: Server) -> float:
    return float((await server.tell("look"))["rss_kb"]) / 1000


async def peak(server: Server, clients: int) -> float:
    """Clients come, are pushed to three times, and go; the memory while they were there."""
    streams = await connect(server, clients)
    for _ in range(3):
        await server.tell("push")
        await asyncio.gather(*(stream.take() for stream in streams))
    most = await megabytes(server)
    await close(streams)
    await asyncio.sleep(QUIET_S)
    return most


async def peaks(name: str, environment: Mapping[str, str], *, clients: int, rounds: int) -> None:
    async with server_process(100, 1000, environment=environment) as server:
        cold = await megabytes(server)
        await peak(server, 1)
        warm = await megabytes(server)
        print(f"memory, {name}: {cold:.1f} MB cold, {warm:.1f} MB after one client")
        for number in range(1, rounds + 1):
            most = await peak(server, clients)
            left = await megabytes(server)
            print(
                f"  peak {number} of {clients}: {most:.1f} MB, all gone {left:.1f} MB, "
                f"{100 * (left / warm - 1):+.0f} % of after one, {100 * (left / cold - 1):+.0f} % "
                "of cold"
            )


async def main(arguments: argparse.Namespace) -> None:
    for name, environment in ENVIRONMENTS.items():
        await peaks(name, environment, clients=arguments.clients, rounds=arguments.rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    uvloop.run(main(parser.parse_args()))
