"""A network of loopback addresses for one scene, which no other process uses meanwhile."""

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

_CLAIM_PORT = 9
_SECOND = range(100, 255)
"""The second numbers of the addresses; tests that write theirs out use smaller ones."""


@dataclass
class Network:
    """Addresses 127.x.y.1 to 127.x.y.250, each given once."""

    prefix: str
    _numbers: Iterator[int] = field(default_factory=lambda: iter(count(1)))

    def address(self) -> str:
        return f"{self.prefix}.{next(self._numbers)}"


@contextmanager
def claimed_network() -> Iterator[Network]:
    """Claim a network, by listening on one of its addresses, until the block ends."""
    randomness = random.SystemRandom()
    while True:
        prefix = f"127.{randomness.choice(_SECOND)}.{randomness.randrange(1, 255)}"
        with socket.socket() as claim:
            try:
                claim.bind((f"{prefix}.254", _CLAIM_PORT))
            except OSError:
                continue
            yield Network(prefix)
            return
