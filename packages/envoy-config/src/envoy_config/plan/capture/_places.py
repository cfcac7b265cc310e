"""Addresses and ports that several services want, and the chains that they get there.

Envoy refuses a listener two of whose chains take the same connections: a chain that would is left
out, and the older service keeps them.
"""

from collections.abc import Iterable
from enum import Enum, auto

from envoy_config.plan.capture._listeners import Chain, HttpChain
from envoy_config.plan.l4._chains import TcpChain, connections, only
from istio_config.kinds.protocol import Protocol

_ALONE = (Protocol.MONGO, Protocol.MYSQL)
"""Protocols whose ports have no chains of other protocols."""


class Kind(Enum):
    """How the chains of a place look at connections."""

    HTTP = auto()
    TCP = auto()
    AUTO = auto()


class Place:
    """One address and port, and the chains of the services there."""

    def __init__(self, kind: Kind, protocol: Protocol | None, chains: Iterable[Chain]) -> None:
        self._kind = kind
        self._protocol = protocol
        self._chains: list[Chain] = []
        self._taken: set[tuple[str, str]] = set()
        for each in chains:
            self._add(each)

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The chains; that of requests first."""
        detected = self._kind is Kind.AUTO
        return tuple(
            each._replace(detected=detected) if isinstance(each, HttpChain) else each
            for each in sorted(self._chains, key=lambda each: isinstance(each, TcpChain))
        )

    def merge(self, kind: Kind, protocol: Protocol | None, chains: Iterable[Chain]) -> bool:
        """Add the chains of a further service; tells whether it lost none."""
        if protocol is not self._protocol and (protocol in _ALONE or self._protocol in _ALONE):
            return False
        if kind is Kind.HTTP and self._kind is not Kind.TCP:
            return True  # the requests of all services have one chain
        if kind is Kind.AUTO and self._kind is Kind.HTTP:
            self._chains.clear()  # what is sniffed takes requests, too
        if kind is not self._kind:
            self._kind = Kind.AUTO
        lost = [each for each in chains if not self._add(each)]
        return not lost

    def _add(self, chain: Chain) -> bool:
        if isinstance(chain, HttpChain):
            if not any(isinstance(each, HttpChain) for each in self._chains):
                self._chains.append(chain)
            return True
        wanted = list(connections(chain))
        free = [each for each in wanted if each not in self._taken]
        if not free:
            return False
        self._taken.update(free)
        if len(free) < len(wanted):
            self._chains.extend(only(chain, free))
            return False
        self._chains.append(chain)
        return True
