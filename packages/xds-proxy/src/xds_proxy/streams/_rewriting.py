"""The types whose resources the agent changes before Envoy gets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Rewriter(Protocol):
    """Changes resources on their way to Envoy, such as a remote Wasm module into a local file.

    A rewrite runs beside the stream: other types pass meanwhile. Of one type the order is kept, and
    a response that has every resource of an earlier one supersedes it if that one is still being
    rewritten: its rewrite is cancelled.
    """

    def concerns(self, node: bytes, type_url: str) -> bool:
        """Say whether responses of this type to this Envoy may have to be changed.

        node: Envoy's serialised `envoy.config.core.v3.Node`. Called on the event loop for each
        response: it must be quick.
        """

    async def rewrite(self, node: bytes, type_url: str, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Return the bodies for Envoy, as many as there are and in the same order.

        bodies: each resource's serialised `google.protobuf.Any`; in delta, resources without one
        are left out. A body that is the same object as before is unchanged; if all are, the
        response passes byte for byte.

        Raises:
            RewriteRefused: the response cannot be used. The relay refuses it (NACK) with the text,
                and Envoy does not get it. Any other exception is logged, and refused likewise.
        """
