"""The other sides of the server in its tests: clients, upstreams that misbehave, and an oracle."""

from dns_peers._clients import TcpClient, ask, ask_tcp, exchange
from dns_peers._reference import Expected, read_answer, reference_answer
from dns_peers._servers import PATIENT, QUICK, answering, refusing_port, running
from dns_peers._upstream import Behaviour, FakeUpstream, Over, reply_to, upstream

__all__ = [
    "Over",
    "Behaviour",
    "Expected",
    "FakeUpstream",
    "PATIENT",
    "QUICK",
    "TcpClient",
    "answering",
    "ask",
    "ask_tcp",
    "exchange",
    "read_answer",
    "reference_answer",
    "refusing_port",
    "reply_to",
    "running",
    "upstream",
]
