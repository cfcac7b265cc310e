"""Which dialects each control plane does not serve; synchronous, does no I/O."""

from __future__ import annotations

from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD, Dialect

_OTHER = {DELTA.name: STATE_OF_THE_WORLD, STATE_OF_THE_WORLD.name: DELTA}


class SpokenDialects:
    """Remembers by address, so that only the first stream of a dialect is refused."""

    def __init__(self) -> None:
        self._not_served: dict[str, set[str]] = {}

    def dialect(self, address: str, wanted: Dialect) -> Dialect:
        """Return the dialect of the next stream to an address: Envoy's unless it is not served."""
        not_served = self._not_served.get(address, set())
        other = _OTHER[wanted.name]
        return other if wanted.name in not_served and other.name not in not_served else wanted

    def on_unimplemented(self, address: str, dialect: Dialect) -> Dialect | None:
        """A stream was refused as UNIMPLEMENTED. Returns the dialect to try, None if there is none.

        After both were refused, the next stream tries Envoy's again.
        """
        other = _OTHER[dialect.name]
        not_served = self._not_served.setdefault(address, set())
        not_served.add(dialect.name)
        if other.name in not_served:
            del self._not_served[address]
            return None
        return other

    def forget(self, address: str) -> None:
        """Know nothing of an address any more."""
        self._not_served.pop(address, None)
