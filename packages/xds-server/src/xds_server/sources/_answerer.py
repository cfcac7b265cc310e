"""The protocol of what answers questions: requests that are answered once and watch nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from xds_server.protocol._resource import Resource
from xds_server.sources._generator import Client

C_contra = TypeVar("C_contra", contravariant=True)


class Answerer(Protocol[C_contra]):
    """Answers the questions of one type: debug pages over xDS, as Istio's tools ask for them."""

    def answer(self, client: Client[C_contra], names: frozenset[str], /) -> Sequence[Resource]:
        """Return the resources of the answer, of any type and number.

        Raises `Refused`, which ends the client's stream with its status.
        """
        ...
