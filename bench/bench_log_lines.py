"""How many lines the logs of an agent and of its control plane have: idle, in an outage, and while
workloads are refused.

Starts both as processes and counts lines for some time in each state. A thousand refused workloads
are played by one program: they ask for certificates and open streams with an expired token, or have
a good token and want to register as a group that there is not, each workload in turn.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import grpc.aio
from bench_agent import (
    CONTROL_PLANE,
    ISSUER,
    WORKLOAD,
    agent,
    control_plane,
    process_of,
    workload_environment,
)

from mesh_ca import TokenIssuer
from mesh_ca.testing import signing_request
from mesh_protos import CREATE_CERTIFICATE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse
from xds_server import type_urls
from xds_server.testing import SotwClient, StreamEnded, over_grpc

SETTLED_S = 5.0
NAMES = [("grpc.ssl_target_name_override", "istiod.istio-system.svc")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each state")
    parser.add_argument("--workloads", type=int, default=1000)
    parser.add_argument("--attempts-a-second", type=float, default=50.0, help="of all workloads")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        idle_and_outage(Path(name), options.seconds)
    with tempfile.TemporaryDirectory() as name, control_plane(Path(name)):
        tokens = TokenIssuer(Path(name) / "tokens", ISSUER)
        token = tokens.issue("default", "web")
        count = options.workloads
        with counted(Path(name), f"{count} that may not register"):
            attempts = asyncio.run(many_refused_groups(Path(name), token, options))
        print(f"{'':34} {attempts} attempts")
        token = expired_token(Path(name))
        one_refused(Path(name), options.seconds)
        with counted(Path(name), f"{count} refused workloads"):
            attempts = asyncio.run(many_refused(Path(name), token, options))
        print(f"{'':34} {attempts} attempts")


def idle_and_outage(top: Path, seconds: float) -> None:
    with control_plane(top):
        started = agent(top)
        started.__enter__()
        time.sleep(SETTLED_S)
        with counted(top, "idle"):
            time.sleep(seconds)
    try:
        time.sleep(SETTLED_S)
        with counted(top, "control plane away"):
            time.sleep(seconds)
    finally:
        started.__exit__(None, None, None)


def one_refused(top: Path, seconds: float) -> None:
    environ = {
        **workload_environment({}),
        "MESH_AGENT_BIND_ADDRESS": WORKLOAD,
        "DNS_PROXY_ADDR": f"{WORKLOAD}:15053",
    }
    command = [str(Path(sys.executable).with_name("mesh-agent")), "proxy", "sidecar"]
    with process_of("mesh_agent", command, top / "agent", environ):
        time.sleep(SETTLED_S)
        for minute in ("first", "second", "third"):
            with counted(top, f"one refused workload, {minute} time"):
                time.sleep(seconds)


def expired_token(top: Path) -> str:
    """Give the agent a token that has expired, and return it."""
    tokens = TokenIssuer(top / "tokens", ISSUER)
    token = tokens.issue("default", "web", lifetime=timedelta(seconds=1))
    (top / "agent/var/run/secrets/tokens/istio-token").write_text(token)
    time.sleep(2)
    return token


async def many_refused(top: Path, token: str, options: argparse.Namespace) -> int:
    """Try for all workloads in turn; returns the number of attempts, half for certificates."""
    metadata = (("authorization", f"Bearer {token}"),)
    credentials = credentials_of(top)
    request = IstioCertificateRequest(csr=signing_request()[1].decode())
    until, attempts = time.monotonic() + options.seconds, 0
    async with grpc.aio.secure_channel(CONTROL_PLANE, credentials, options=NAMES) as channel:
        create = channel.unary_unary(
            CREATE_CERTIFICATE,
            request_serializer=IstioCertificateRequest.SerializeToString,
            response_deserializer=IstioCertificateResponse.FromString,
        )
        while time.monotonic() < until:
            try:
                await create(request, metadata=metadata)
            except grpc.aio.AioRpcError:
                attempts += 1
            attempts += await stream_refused(credentials, token, attempts // 2 % options.workloads)
            await asyncio.sleep(2 / options.attempts_a_second)
    return attempts


async def many_refused_groups(top: Path, token: str, options: argparse.Namespace) -> int:
    """Try as proxies with a good token, which register as a group that there is not."""
    until, attempts = time.monotonic() + options.seconds, 0
    while time.monotonic() < until:
        number = attempts % options.workloads
        attempts += await stream_refused(credentials_of(top), token, number, group="none")
        await asyncio.sleep(1 / options.attempts_a_second)
    return attempts


def credentials_of(top: Path) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials((top / "authority/root-cert.pem").read_bytes())


async def stream_refused(
    credentials: grpc.ChannelCredentials, token: str, number: int, *, group: str = ""
) -> bool:
    """Open a stream as the workload of a number; tell whether it was refused."""
    metadata = (("authorization", f"Bearer {token}"),)
    node = f"sidecar~10.0.0.1~web-{number}.default~x"
    try:
        async with over_grpc(
            CONTROL_PLANE, credentials=credentials, options=NAMES, metadata=metadata
        ) as wire:
            registers = {"AUTO_REGISTER_GROUP": group} if group else None
            client = SotwClient(wire, node_id=node, metadata=registers)
            await client.subscribe(type_urls.CLUSTER)
            await client.next()
    except StreamEnded:
        return True
    return False


@contextmanager
def counted(top: Path, what: str) -> Iterator[None]:
    files = {"control plane": top / "mesh_discovery.log", "agent": top / "agent/mesh_agent.log"}
    before = {name: lines(file) for name, file in files.items()}
    begun = time.monotonic()
    yield
    minutes = (time.monotonic() - begun) / 60
    found = (
        f"{name} {(lines(file) - before[name]) / minutes:7.1f}" for name, file in files.items()
    )
    print(f"{what:34} lines a minute: {', '.join(found)}", flush=True)


def lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


if __name__ == "__main__":
    main()
