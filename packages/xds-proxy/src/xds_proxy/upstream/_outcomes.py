"""How a stream to a control plane goes, as its place is told."""

from __future__ import annotations

from typing import Protocol

import grpc

from xds_proxy.protocol._dialect import Dialect
from xds_proxy.upstream._selection import Place


class Places(Protocol):
    """Told how the streams to each place go."""

    def answered(self, place: Place) -> None:
        """A stream to a place has its first response."""

    def refused(self, place: Place, reason: str, code: grpc.StatusCode) -> None:
        """A stream to a place has failed before its first response."""

    def ended(self, place: Place, *, lasted_s: float) -> None:
        """A stream to a place has ended as streams do."""

    def not_served(self, place: Place, dialect: Dialect) -> str | None:
        """Return why the next stream is translated; None if the other dialect is not served too."""

    def not_answered(self, place: Place, waited_s: float) -> str | None:
        """Return why a stream to it is given up; None if there is no other to go to."""


class StreamOutcome:
    """Tells of one stream to one place. spoken: the dialect of the stream."""

    def __init__(self, places: Places, place: Place, spoken: Dialect) -> None:
        self._places = places
        self._place = place
        self._spoken = spoken

    def answered(self) -> None:
        self._places.answered(self._place)

    def ended(self, failure: str | None, *, code: grpc.StatusCode, lasted_s: float) -> None:
        if failure is None:
            self._places.ended(self._place, lasted_s=lasted_s)
        else:
            self._places.refused(self._place, failure, code)

    def not_served(self) -> str | None:
        return self._places.not_served(self._place, self._spoken)

    def not_answered(self, waited_s: float) -> str | None:
        return self._places.not_answered(self._place, waited_s)


class AnyOutcome:
    """Of a stream that tells nothing of its control plane."""

    def answered(self) -> None:
        pass

    def not_served(self) -> str | None:
        return None

    def ended(self, failure: str | None, *, code: grpc.StatusCode, lasted_s: float) -> None:
        pass

    def not_answered(self, waited_s: float) -> str | None:  # noqa: ARG002
        return None
