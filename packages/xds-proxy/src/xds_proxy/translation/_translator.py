"""The face of a translator, and which one two dialects need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xds_proxy.protocol._dialect import Dialect


class Translator(Protocol):
    """Translates one stream; synchronous, does no I/O."""

    def request(self, data: bytes) -> Sequence[bytes]:
        """Return what the control plane gets for a request of Envoy's. Raises WireError.

        Includes what `owed` would return for the request's type.
        """

    def response(self, data: bytes) -> bytes | None:
        """Return what Envoy gets for a response of the control plane's; None if it is nothing.

        Raises:
            WireError: the bytes are not a response.
            TranslationError: what Envoy would have to get is larger than a message may be.
        """

    def take_owed(self) -> Sequence[bytes]:
        """Return the requests that the translator sends of its own, such as the answers to
        responses of which Envoy gets nothing; each of them once.
        """


def translator(*, envoy: Dialect, control_plane: Dialect, max_bytes: int) -> Translator:
    """Return a translator for a new stream to a control plane that does not speak Envoy's dialect.

    max_bytes: the largest message that Envoy gets; also bounds what is kept of one type.
    """
    if envoy.resources_are_wrapped == control_plane.resources_are_wrapped:
        raise ValueError(f"both sides speak {envoy.name}")
    # Loaded when used: most control planes speak both dialects.
    if envoy.resources_are_wrapped:
        from xds_proxy.translation._delta_over_sotw import DeltaOverSotw

        return DeltaOverSotw()
    from xds_proxy.translation._sotw_over_delta import SotwOverDelta

    return SotwOverDelta(max_bytes=max_bytes)
