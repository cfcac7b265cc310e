"""Connections of another process are ended, those to certain addresses alone."""

import socket
import subprocess
import sys

from mesh_local.testing.faults._connections import end_connections

CLIENT = """
import socket, sys
places = list(zip(sys.argv[1::2], sys.argv[2::2]))
connections = [socket.create_connection((host, int(port))) for host, port in places]
for connection in connections:
    print(connection.recv(1), flush=True)
"""


def test_connections_to_an_address_end_and_others_stay() -> None:
    with (
        socket.create_server(("127.0.3.1", 0)) as cut,
        socket.create_server(("127.0.3.2", 0)) as kept,
    ):
        where = [str(word) for each in (cut, kept) for word in each.getsockname()]
        process = subprocess.Popen([sys.executable, "-c", CLIENT, *where], stdout=subprocess.PIPE)
        with process, cut.accept()[0] as first, kept.accept()[0] as second:
            assert process.stdout is not None
            assert end_connections(process.pid, frozenset({"127.0.3.1"})) == 1
            assert process.stdout.readline() == b"b''\n"
            assert first.recv(1) == b""
            second.sendall(b"x")
            assert process.stdout.readline() == b"b'x'\n"
        assert end_connections(process.pid, frozenset({"127.0.3.2"})) == 0
