"""How a stream to a control plane goes, reported to what chooses among the control planes."""

from __future__ import annotations

from typing import Protocol

import grpc

from xds_proxy.protocol._dialect import Dialect
from xds_proxy.upstream._selection import ControlPlaneEntry


class OutcomeReceiver(Protocol):
    """Receives the outcomes of the streams to each control plane."""

    def on_answer(self, entry: ControlPlaneEntry) -> None:
        """A stream to a control plane has its first response."""

    def on_failure(self, entry: ControlPlaneEntry, reason: str, code: grpc.StatusCode) -> None:
        """A stream to a control plane has failed before its first response."""

    def on_end(self, entry: ControlPlaneEntry, *, lasted_s: float) -> None:
        """A stream to a control plane has ended as streams do."""

    def on_unimplemented(self, entry: ControlPlaneEntry, dialect: Dialect) -> str | None:
        """Return why the next stream is translated; None if the other dialect is not served too."""

    def on_silence(self, entry: ControlPlaneEntry, waited_s: float) -> str | None:
        """Return why a stream to it is given up; None if there is no other to go to."""


class StreamOutcome:
    """Reports the outcome of one stream to one control plane. spoken: the dialect of the stream."""

    def __init__(
        self, receiver: OutcomeReceiver, entry: ControlPlaneEntry, spoken: Dialect
    ) -> None:
        self._receiver = receiver
        self._entry = entry
        self._spoken = spoken

    def on_answer(self) -> None:
        self._receiver.on_answer(self._entry)

    def on_end(self, failure: str | None, *, code: grpc.StatusCode, lasted_s: float) -> None:
        if failure is None:
            self._receiver.on_end(self._entry, lasted_s=lasted_s)
        else:
            self._receiver.on_failure(self._entry, failure, code)

    def on_unimplemented(self) -> str | None:
        return self._receiver.on_unimplemented(self._entry, self._spoken)

    def on_silence(self, waited_s: float) -> str | None:
        return self._receiver.on_silence(self._entry, waited_s)


class NullOutcome:
    """The outcome of a stream that says nothing of its control plane."""

    def on_answer(self) -> None:
        pass

    def on_unimplemented(self) -> str | None:
        return None

    def on_end(self, failure: str | None, *, code: grpc.StatusCode, lasted_s: float) -> None:
        pass

    def on_silence(self, waited_s: float) -> str | None:  # noqa: ARG002
        return None
