"""The fake Envoy itself. Runs alone, on the standard library, without this package."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TypedDict


class Behaviour(TypedDict):
    """The fields of `FakeEnvoy`, as its settings file has them."""

    prints: str
    print_bytes: int
    exits: int | None
    crashes: int | None
    exits_after_s: float
    never_ready: bool
    ready_after: int
    no_admin: bool
    hangs: bool
    ignores_sigterm: bool
    connections: list[int]


class _SocketAddress(TypedDict):
    address: str
    port_value: int


class _Pipe(TypedDict):
    path: str


class _Address(TypedDict, total=False):
    socket_address: _SocketAddress
    pipe: _Pipe


class _Admin(TypedDict):
    address: _Address


class Bootstrap(TypedDict):
    """The only part of a bootstrap that is read."""

    admin: _Admin


def main(settings: str, journal: str, *arguments: str) -> None:
    behaviour: Behaviour = json.loads(Path(settings).read_text())
    if argument(arguments, "--mode") == "validate":
        return
    record(journal, "start", list(arguments))
    if behaviour["ignores_sigterm"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    sys.stderr.write(behaviour["prints"])
    for _ in range(behaviour["print_bytes"] // 100):
        sys.stderr.write("[warning][main] " + "x" * 83 + "\n")
    sys.stderr.flush()
    if behaviour["exits"] is not None or behaviour["crashes"] is not None:
        threading.Timer(behaviour["exits_after_s"], end, [behaviour]).start()
    epoch = int(argument(arguments, "--restart-epoch", "0"))
    if "--base-id-path" in arguments:
        Path(argument(arguments, "--base-id-path")).write_text("1")
    if not behaviour["no_admin"]:
        config_path = argument(arguments, "-c")
        listener = listen(json.loads(Path(config_path).read_text()))
        options = {"restart_epoch": epoch, "config_path": config_path}
        threading.Thread(
            target=serve, args=(listener, behaviour, journal, options), daemon=True
        ).start()
    while True:
        signal.pause()


def record(journal: str, kind: str, what: list[str]) -> None:
    with Path(journal).open("a") as file:
        file.write(json.dumps([kind, what]) + "\n")


def end(behaviour: Behaviour) -> None:
    if behaviour["crashes"] is not None:
        os.kill(os.getpid(), behaviour["crashes"])
    else:
        os._exit(behaviour["exits"] or 0)


def argument(arguments: tuple[str, ...], name: str, default: str = "") -> str:
    return arguments[arguments.index(name) + 1] if name in arguments else default


def listen(bootstrap: Bootstrap) -> socket.socket:
    address = bootstrap["admin"]["address"]
    if "pipe" in address:
        Path(address["pipe"]["path"]).unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(address["pipe"]["path"])
    else:
        place = address["socket_address"]
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((place["address"], place["port_value"]))
    listener.listen(64)
    return listener


def serve(
    listener: socket.socket, behaviour: Behaviour, journal: str, options: dict[str, object]
) -> None:
    unready = behaviour["ready_after"]
    connections = list(behaviour["connections"])
    hanging = []
    while True:
        connection, _ = listener.accept()
        if behaviour["hangs"]:
            hanging.append(connection)
            continue
        with connection, suppress(OSError):  # the client may leave before the answer
            words = request_line(connection)
            if len(words) < 2:
                continue
            method, path = words[0], words[1]
            status, body = 200, "OK\n"
            if path == "/ready":
                if behaviour["never_ready"] or unready > 0:
                    status, body = 503, "INITIALIZING\n"
                else:
                    body = "LIVE\n"
            elif path == "/server_info":
                waiting = behaviour["never_ready"] or unready > 0
                unready -= 1
                body = json.dumps(
                    {
                        "state": "PRE_INITIALIZING" if waiting else "LIVE",
                        "version": "fake/0/Fake",
                        "command_line_options": options,
                    }
                )
            elif path.startswith("/stats"):
                body = (
                    "listener.admin.downstream_cx_active: 1\n"
                    f"listener.127.0.0.1_80.downstream_cx_active: {connections[0]}\n"
                )
                if len(connections) > 1:
                    connections.pop(0)
            elif method == "POST":
                record(journal, "call", [f"{method} {path}"])
                if path == "/quitquitquit":
                    os._exit(0)
            else:
                status, body = 404, "not here\n"
            connection.sendall(
                f"HTTP/1.1 {status} -\r\ncontent-length: {len(body)}\r\n"
                f"connection: close\r\n\r\n{body}".encode()
            )


def request_line(connection: socket.socket) -> list[str]:
    """Return the words of a request line.

    The whole head is read: closing with a rest unread would lose the answer.
    """
    with connection.makefile("rb") as lines:
        words = lines.readline().decode().split()
        while lines.readline().strip():
            pass
    return words


if __name__ == "__main__":
    main(*sys.argv[1:])
