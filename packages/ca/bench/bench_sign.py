"""How many certificates a second one core signs through gRPC.

    python bench_sign.py [--seconds 3] [--callers 1 8 64] [--batch]

The server runs on uvloop in a process of its own, pinned to one core, with the audit log written
to a file; the callers share another process on another core, each has a connection of its own and
sends prepared P-256 requests, one after the other. What is measured, by the word in the first
column:

    alone   `Authority.sign` in a loop: what reading, checking and signing cost
    empty   a service that answers with the same bytes and does nothing: what gRPC and TLS cost
    fixed   the whole service, every caller taken for the same workload
    token   the same, callers authenticated by an RS256 token they have shown before
    unseen  the same, the token's signature checked at every call

`--batch` has the kernel schedule the server as one that works in bulk (SCHED_BATCH, as
`chrt --batch 0` does): on one core gRPC's threads no longer interrupt each other.
"""

import argparse
import asyncio
import itertools
import logging
import multiprocessing
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import grpc
import grpc.aio
import uvloop
from raw_caller import RawCaller

from mesh_ca import (
    Authenticator,
    Authority,
    JwksSource,
    JwtAuthenticator,
    TokenIssuer,
    certificate_service,
    grpc_credentials,
    load_or_create_authority,
)
from mesh_ca.testing import FixedAuthenticator, signing_request, throwaway_authority
from mesh_protos import CREATE_CERTIFICATE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse
from mesh_testkit.measurements import FLOOR, Row, tell

ISSUER = "https://bench.example"
REQUESTS = 256
CART = "spiffe://cluster.local/ns/shop/sa/cart"


def pin(core: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def empty_service(authority: Authority) -> "grpc.GenericRpcHandler[bytes, bytes]":
    issued = authority.sign(signing_request()[1], identities=[CART])
    answer = IstioCertificateResponse(cert_chain=[pem.decode() for pem in issued.chain_pem])
    body = answer.SerializeToString()

    async def create_certificate(_request: bytes, _context: object) -> bytes:
        return body

    _, service, method = CREATE_CERTIFICATE.split("/")
    handler = grpc.unary_unary_rpc_method_handler(create_certificate)
    return grpc.method_handlers_generic_handler(service, {method: handler})


async def serve(directory: Path, authenticator: Authenticator | None, control: Connection) -> None:
    authority = load_or_create_authority(directory / "ca", trust_domain="cluster.local")
    server = grpc.aio.server()
    if authenticator is None:
        server.add_generic_rpc_handlers((empty_service(authority),))
    else:
        service = certificate_service(authority, authenticator, credentials_of=grpc_credentials)
        server.add_generic_rpc_handlers((service,))
    key, chain = authority.issue_server_certificate(["localhost"])
    port = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([(key, chain)], None, require_client_auth=False)
    )
    await server.start()
    control.send((port, authority.root_pem))
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, control.recv) == "cpu":
        control.send(time.process_time())
    await server.stop(None)


def run_server(directory: Path, mode: str, control: Connection, *, batch: bool) -> None:
    pin(0)
    if batch:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    logging.basicConfig(
        filename=directory / "audit.log",
        level=logging.INFO,
        format="%(asctime)s %(message)s %(serial)s %(identities)s %(peer)s %(not_after)s",
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.getLogger("mesh_ca").setLevel(logging.WARNING)
    logging.getLogger("mesh_ca.audit").setLevel(logging.INFO)
    authenticator: Authenticator | None = None
    if mode == "fixed":
        authenticator = FixedAuthenticator(CART)
    if mode in {"token", "unseen"}:
        authenticator = JwtAuthenticator(
            ISSUER,
            ["istio-ca"],
            jwks=JwksSource(directory / "jwks.json"),
            trust_domain="cluster.local",
            remembered_tokens=1024 if mode == "token" else 0,
        )
    uvloop.run(serve(directory, authenticator, control))


async def call(
    port: int, *, root: bytes, requests: Sequence[bytes], token: str, callers: int, seconds: float
) -> list[float]:
    """Keep `callers` calls going for `seconds`, each on a connection of its own."""
    latencies: list[float] = []
    tls = ssl.create_default_context(cadata=root.decode())
    tls.set_alpn_protocols(["h2"])
    next_request = itertools.cycle(requests)
    loop = asyncio.get_running_loop()

    async def caller(ready: asyncio.Barrier) -> None:
        raw = RawCaller(CREATE_CERTIFICATE, [("authorization", f"Bearer {token}")])
        transport, _ = await loop.create_connection(
            lambda: raw, "127.0.0.1", port, ssl=tls, server_hostname="localhost"
        )
        await raw.call(next(next_request))
        await ready.wait()
        end = time.perf_counter() + seconds
        while (begun := time.perf_counter()) < end:
            await raw.call(next(next_request))
            latencies.append(time.perf_counter() - begun)
        transport.close()

    ready = asyncio.Barrier(callers)
    async with asyncio.TaskGroup() as group:
        for number in range(callers):
            group.create_task(caller(ready), name=f"caller {number}")
    return latencies


def alone(seconds: float) -> None:
    authority = throwaway_authority()
    _, csr = signing_request()
    count, cpu, begun = 0, time.process_time(), time.perf_counter()
    while (elapsed := time.perf_counter() - begun) < seconds:
        authority.sign(csr, identities=[CART])
        count += 1
    cpu = time.process_time() - cpu
    print(
        f" alone       - {count / elapsed:>12.0f} {elapsed / count * 1e3:>10.2f} {'-':>10} "
        f"{cpu / count * 1e6:>12.0f} {count / cpu:>14.0f}"
    )


def measure(mode: str, callers: Sequence[int], seconds: float, *, batch: bool) -> list[float]:
    """Print a line for each number of callers; returns the processor time of a call, in us."""
    costs = []
    requests = [
        IstioCertificateRequest(csr=signing_request()[1].decode()).SerializeToString()
        for _ in range(REQUESTS)
    ]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        issuer = TokenIssuer(directory / "tokens", ISSUER)
        issuer.write_jwks(directory / "jwks.json")
        token = issuer.issue("shop", "cart", lifetime=timedelta(hours=1))
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=run_server,
            args=(directory, mode, theirs),
            kwargs={"batch": batch},
            name="server",
        )
        process.start()
        port, root = ours.recv()
        ask = partial(call, port, root=root, requests=requests, token=token)
        uvloop.run(ask(callers=1, seconds=0.3))
        for count in callers:
            ours.send("cpu")
            cpu = ours.recv()
            begun = time.perf_counter()
            latencies = uvloop.run(ask(callers=count, seconds=seconds))
            elapsed = time.perf_counter() - begun
            ours.send("cpu")
            cpu = ours.recv() - cpu
            latencies.sort()
            costs.append(cpu / len(latencies) * 1e6)
            print(
                f"{mode:>6} {count:>7} {len(latencies) / elapsed:>12.0f} "
                f"{median(latencies) * 1e3:>10.2f} "
                f"{latencies[int(len(latencies) * 0.99)] * 1e3:>10.2f} "
                f"{cpu / len(latencies) * 1e6:>12.0f} {len(latencies) / cpu:>14.0f}"
            )
        ours.send("stop")
        process.join()
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description="certificates signed a second through gRPC")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", action="store_true")
    options = parser.parse_args()
    pin(1)
    load = os.getloadavg()[0]
    print(f"Python {sys.version.split()[0]}, grpcio {grpc.__version__}, load {load:.1f}")
    print("  auth callers signatures/s  median ms     p99 ms CPU us/call   per CPU second")
    alone(options.seconds)
    for mode in ("empty", "fixed", "token", "unseen"):
        measure(mode, options.callers, options.seconds, batch=options.batch)
    costs = [
        [measure(mode, [8], options.seconds, batch=options.batch)[0] for mode in ("token", "empty")]
        for _ in range(options.rounds)
    ]
    ours, empty = zip(*costs, strict=True)
    tell([Row("certificate, TLS and token: CPU a call", "us", ours, {FLOOR: empty})])


if __name__ == "__main__":
    main()
