"""A process of the same user in another network namespace, which tries to pass for an allowed one.

Arguments: a path to listen on, a path to connect to, names to bind to. What comes in at the first
goes on to the second, from a socket bound to the first of the names that is free here.
"""

import contextlib
import ctypes
import socket
import sys
import threading

_CLONE_NEWNET = 0x40000000


def main(entry: str, target: str, *names: str) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(entry)
    listening.listen()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        client, _ = listening.accept()
        server = socket.socket(socket.AF_UNIX)
        for name in names:
            with contextlib.suppress(OSError):
                server.bind("\0" + name)
                break
        try:
            server.connect(target)
        except OSError:
            client.close()
            continue
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=pass_on, args=(source, sink), daemon=True).start()


def pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main(*sys.argv[1:])
