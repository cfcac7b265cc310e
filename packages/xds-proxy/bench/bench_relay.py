"""What the relay costs: added latency against a direct connection, throughput, and memory.

Three processes on one machine: a control plane, the relay on uvloop, and a client that plays Envoy.
The direct figures come from the same run, so that the machine's speed cancels out.

    python packages/xds-proxy/bench/bench_relay.py [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import grpc.aio
import psutil
import uvloop

from xds_proxy import RelayConfig, UpstreamConfig, relaying

METHOD = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
TYPE_URL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
BUDGETS = {"added_latency_ms": 1.0, "messages_per_s": 10_000.0, "megabytes_per_s": 500.0}


if TYPE_CHECKING:
    Call = grpc.aio.StreamStreamCall[bytes, bytes]


def _field(number: int, value: bytes) -> bytes:
    length, encoded = len(value), bytearray([number << 3 | 2])
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(encoded) + bytes([length]) + value


def response(size: int) -> bytes:
    """A DiscoveryResponse of about `size` bytes: ten resources."""
    resource = _field(1, TYPE_URL.encode()) + _field(2, b"x" * max(1, (size - 80) // 10 - 64))
    resources = b"" if size < 500 else b"".join(_field(2, resource) for _ in range(10))
    rest = _field(1, b"v1") + resources + _field(4, TYPE_URL.encode()) + _field(5, b"nonce")
    return rest if size >= 500 else rest + _field(6, b"x" * max(1, size - len(rest) - 2))


def request(what: str) -> bytes:
    """A DiscoveryRequest whose version tells the control plane what to do."""
    return _field(1, what.encode()) + _field(4, TYPE_URL.encode())


async def control_plane(directory: Path) -> None:
    """Answers `echo SIZE` with one response, `flood SIZE COUNT` with COUNT of them."""

    async def serve(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        while isinstance(message := await context.read(), bytes):  # else gRPC's EOF
            words = message[2 : 2 + message[1]].decode().split()
            payload = response(int(words[1]))
            for _unused in range(int(words[2]) if words[0] == "flood" else 1):
                await context.write(payload)

    server = grpc.aio.server(options=OPTIONS)
    service, _, name = METHOD[1:].rpartition("/")
    handler = grpc.stream_stream_rpc_method_handler(serve)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {name: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    (directory / "port").write_text(str(port))
    print("ready", flush=True)
    await server.wait_for_termination()


async def relay(directory: Path) -> None:
    address = f"127.0.0.1:{(directory / 'port').read_text()}"
    config = RelayConfig(
        socket_path=directory / "relay" / "XDS",
        upstream=UpstreamConfig(address=address, root_certificate=None),
    )
    async with relaying(config):
        print("ready", flush=True)
        await asyncio.get_running_loop().create_future()


async def _latencies(call: Call, size: int, rounds: int) -> list[float]:
    wanted, taken = request(f"echo {size}"), []
    for _ in range(rounds):
        started = time.perf_counter()
        await call.write(wanted)
        await call.read()
        taken.append((time.perf_counter() - started) * 1000)
    return taken


async def _rate(call: Call, size: int, count: int) -> float:
    await call.write(request(f"flood {size} {count}"))
    await call.read()
    started = time.perf_counter()
    for _ in range(count - 1):
        await call.read()
    return (count - 1) / (time.perf_counter() - started)


async def measure(directory: Path, relay_pid: int) -> dict[str, float]:
    port = (directory / "port").read_text()
    figures: dict[str, float] = {}
    targets = {"direct": f"127.0.0.1:{port}", "relay": f"unix:{directory / 'relay' / 'XDS'}"}
    channels = {n: grpc.aio.insecure_channel(t, options=OPTIONS) for n, t in targets.items()}
    calls: dict[str, Call] = {}
    for name, channel in channels.items():
        calls[name] = channel.stream_stream(METHOD, None, None)(None)
        await _latencies(calls[name], 10_000, 300)
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(10):  # interleaved, so that a busy moment of the machine hits both
        for name, call in calls.items():
            taken[name] += await _latencies(call, 10_000, 200)
    for name, call in calls.items():
        figures[f"{name}_latency_ms"] = statistics.median(taken[name])
        figures[f"{name}_messages_per_s"] = max([await _rate(call, 200, 15_000) for _ in range(3)])
        rates = [await _rate(call, 100_000, 3_000) for _ in range(3)]
        figures[f"{name}_megabytes_per_s"] = max(rates) * len(response(100_000)) / 1e6
    figures["added_latency_ms"] = figures["relay_latency_ms"] - figures["direct_latency_ms"]
    figures["relay_rss_mb"] = psutil.Process(relay_pid).memory_info().rss / 1e6
    for call in calls.values():
        call.cancel()
    for channel in channels.values():
        await channel.close(None)
    return {name: round(value, 3) for name, value in figures.items()}


def _start(role: str, directory: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--role", role, "--directory", str(directory)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", f"the {role} did not start"
    return process


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the xDS relay.")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--role", choices=["control-plane", "relay"], help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role is not None:
        role = control_plane if options.role == "control-plane" else relay
        uvloop.run(role(options.directory))
        return
    with tempfile.TemporaryDirectory(prefix="mesh-") as name:
        processes: list[subprocess.Popen[str]] = []
        try:
            processes.append(_start("control-plane", Path(name)))
            processes.append(_start("relay", Path(name)))
            figures = uvloop.run(measure(Path(name), processes[-1].pid))
        finally:
            for process in reversed(processes):
                process.kill()
                process.communicate()
    for name, value in figures.items():
        print(f"{name:28} {value:12.3f}")
    print(
        f"budgets: added latency <= {BUDGETS['added_latency_ms']} ms, "
        f">= {BUDGETS['messages_per_s']:.0f} messages/s, >= {BUDGETS['megabytes_per_s']:.0f} MB/s"
    )
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
