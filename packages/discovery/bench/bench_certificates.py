"""Certificates a second over TLS with a token, by a foreign client, beside another control plane.

Run as a script, with the client of another project: `--csrload PATH` is a program that calls
CreateCertificate at `-addr` from `-callers` for `-duration`, with `-ca FILE` and `-token FILE`,
and prints a JSON object with `signed`, `errors`, `per_s` and `p99_ms`. Servers and client have
processes of their own, and the servers alternate in one run:

- `mesh-discovery` of this checkout as it is started in production, with `--ca-signers` 0 and 1;
- with `--against PYTHON`, that of the checkout whose interpreter it is;
- with `--peer COMMAND`, another control plane with Istio's interfaces, such as istiod:
  `env ROOT_CA_DIR={ca} JWT_RULE={jwt_rule} PILOT_CERT_PROVIDER=istiod POD_NAME=a
  POD_NAMESPACE=istio-system pilot-discovery discovery --registries= --configDir {config}
  --secureGRPCAddr 127.0.0.1:{port} ...`; {port1} to {port4} are further free ports;
- `empty`, a handler of grpc.aio behind gRPC's own TLS that answers with as many bytes.

CPU is that of all processes of the server, a call; and of its first thread, which is what one core
at most can do.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_S = 60
NAME = "istiod.istio-system.svc"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def thread_seconds(pid: int, thread: int) -> float:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0]) / 1e9
    return 0.0


def processes(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - numbers, not paths
            children = Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
            for child in children:
                found += processes(int(child))
    return found


def all_seconds(pid: int) -> float:
    return sum(
        thread_seconds(each, int(thread))
        for each in processes(pid)
        for thread in os.listdir(f"/proc/{each}/task")  # noqa: PTH208
    )


@dataclass(kw_only=True)
class Server:
    """A control plane that runs, and what was measured of it."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    root: Path
    per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    thread_us: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)

    def measure(self, options: argparse.Namespace, token: Path, seconds: float) -> float:
        pid = self.process.pid
        cpu, thread = all_seconds(pid), thread_seconds(pid, pid)
        command = [options.csrload, "-addr", f"127.0.0.1:{self.port}", "-ca", str(self.root)]
        command += ["-token", str(token), "-callers", str(options.callers)]
        ran = subprocess.run(
            [*command, "-duration", f"{seconds}s"], check=True, stdout=subprocess.PIPE
        )
        report = json.loads(ran.stdout)
        if report["errors"]:
            sys.exit(f"{self.name}: {report['errors']} calls failed")
        calls = report["signed"] + options.callers  # each begins with one that is not counted
        self.per_s.append(report["per_s"])
        self.p99_ms.append(report["p99_ms"])
        self.cpu_us.append((all_seconds(pid) - cpu) / calls * 1e6)
        self.thread_us.append((thread_seconds(pid, pid) - thread) / calls * 1e6)
        return float(report["per_s"])


async def serve_empty(port: int, root_pem: bytes, key_and_chain: tuple[bytes, bytes]) -> None:
    """The floor: what a call costs that is answered with what another one was."""
    import grpc
    import grpc.aio

    from mesh_protos import CREATE_CERTIFICATE
    from mesh_protos.ca_pb2 import IstioCertificateResponse

    chain = [pem.decode() for pem in (key_and_chain[1], root_pem)]
    body = IstioCertificateResponse(cert_chain=chain).SerializeToString()

    async def create_certificate(_request: bytes, _context: object) -> bytes:
        return body

    _, service, method = CREATE_CERTIFICATE.split("/")
    handlers = {method: grpc.unary_unary_rpc_method_handler(create_certificate)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([key_and_chain]))
    await server.start()
    await server.wait_for_termination()


def run_empty(port: int, root: Path) -> None:
    import uvloop

    from mesh_ca.testing import throwaway_authority

    authority = throwaway_authority()
    root.write_bytes(authority.root_pem)
    uvloop.run(serve_empty(port, authority.root_pem, authority.issue_server_certificate([NAME])))


@contextlib.contextmanager
def serving_keys(directory: Path) -> Iterator[str]:
    """The key set by URL, as istiod wants it."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, name="keys", daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/jwks.json"
        finally:
            server.shutdown()


@dataclass(frozen=True, kw_only=True)
class RunDirectories:
    """The directory of a run, and one for the logs: lines are events for who watches the first."""

    directory: Path
    logs: Path
    jwks_url: str

    def discovery(self, name: str, python: str, *flags: str) -> Callable[[int], list[str]]:
        def command(port: int) -> list[str]:
            return [
                *(python, "-m", "mesh_discovery", "discovery", "--jwt-issuer=bench"),
                f"--config-dir={self.directory / 'config'}",
                f"--ca-dir={self.directory / name}",
                f"--jwks-file={self.directory / 'keys' / 'jwks.json'}",
                *("--http-addr=", "--grpc-addr=", "--monitoring-addr="),
                f"--secure-grpc-addr=127.0.0.1:{port}",
                *flags,
            ]

        return command

    def peer(self, template: str) -> Callable[[int], list[str]]:
        rule = {"issuer": "bench", "jwks_uri": self.jwks_url, "audiences": ["istio-ca"]}

        def command(port: int) -> list[str]:
            values = {f"port{number}": free_port() for number in range(1, 5)}
            values |= {"port": port}
            config, ca = self.directory / "config", self.directory / "peer"
            return [
                word.format(config=config, ca=ca, jwt_rule=json.dumps(rule), **values)
                for word in shlex.split(template)
            ]

        return command

    def empty(self, port: int) -> list[str]:
        return [sys.executable, __file__, "--serve-empty", str(port), str(self.root("empty"))]

    def root(self, name: str) -> Path:
        return self.directory / name / "root-cert.pem"


def start(name: str, directories: RunDirectories, command: Callable[[int], list[str]]) -> Server:
    port = free_port()
    with (directories.logs / f"{name}.log").open("wb") as output:
        process = subprocess.Popen(command(port), stdout=output, stderr=output)
    server = Server(name=name, process=process, port=port, root=directories.root(name))
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return server
        time.sleep(0.1)
    process.kill()
    text = (directories.logs / f"{name}.log").read_text(errors="replace")
    sys.exit(f"{name} does not listen:\n{text[-2000:]}")


def prepare(directories: RunDirectories) -> Path:
    """Make what the servers read, and return the token."""
    from mesh_ca import TokenIssuer, load_or_create_authority

    (directories.directory / "config").mkdir()
    (directories.directory / "empty").mkdir()
    peer = directories.directory / "peer"
    load_or_create_authority(peer, trust_domain="cluster.local")
    chain = peer / "cert-chain.pem"
    if not chain.exists() or not chain.read_bytes():
        chain.write_bytes((peer / "root-cert.pem").read_bytes())  # istiod wants one
    issuer = TokenIssuer(directories.directory / "keys", "bench")
    issuer.write_jwks(directories.directory / "keys" / "jwks.json")
    token = directories.directory / "token"
    issuer.write_token(token, "shop", "cart")
    return token


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})"


def show(servers: list[Server], reference: Server) -> None:
    print(f"beside {reference.name}; median and range of {len(reference.per_s)} rounds")
    print(f"{'':16} {'a second':>22} {'ratio':>18} {'CPU us a call':>22} {'of one thread':>22}")
    for server in servers:
        ratios = [ours / theirs for ours, theirs in zip(server.per_s, reference.per_s, strict=True)]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        print(
            f"{server.name:16} {spread(server.per_s):>22} {ratio:>18} "
            f"{spread(server.cpu_us):>22} {spread(server.thread_us):>22}"
        )


def run(options: argparse.Namespace) -> None:
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (directory / "keys").mkdir(mode=0o700)
        jwks_url = stack.enter_context(serving_keys(directory / "keys"))
        directories = RunDirectories(directory=directory, logs=logs, jwks_url=jwks_url)
        token = prepare(directories)
        commands = {
            "0 signers": directories.discovery("0 signers", sys.executable, "--ca-signers=0"),
            "1 signer": directories.discovery("1 signer", sys.executable, "--ca-signers=1"),
            "empty": directories.empty,
        }
        if options.against:
            commands["against"] = directories.discovery("against", options.against)
        if options.peer:
            commands["peer"] = directories.peer(options.peer)
        servers = []
        for each, command in commands.items():
            server = start(each, directories, command)
            stack.callback(server.process.wait)
            stack.callback(server.process.terminate)
            servers.append(server)
        for server in servers:
            server.measure(options, token, 1.0)
        for server in servers:
            for values in (server.per_s, server.cpu_us, server.thread_us, server.p99_ms):
                values.clear()
        for number in range(options.rounds):
            for server in servers if number % 2 == 0 else reversed(servers):
                server.measure(options, token, options.seconds)
        print(f"Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
        show(servers, servers[-1] if options.peer else servers[2])


def main() -> None:
    parser = argparse.ArgumentParser(description="certificates a second, beside a peer")
    parser.add_argument("--csrload", help="the client")
    parser.add_argument("--against", help="interpreter of another checkout")
    parser.add_argument("--peer", help="command of another control plane")
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--serve-empty", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_empty:
        port, root = options.serve_empty
        run_empty(int(port), Path(root))
    elif options.csrload is None:
        print("nothing measured: --csrload names the client (see the head of this file)")
    else:
        run(options)


if __name__ == "__main__":
    main()
