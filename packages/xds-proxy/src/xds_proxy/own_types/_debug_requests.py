"""Questions to the control plane that an operator asks over the stream that leads.

Istio's control plane answers requests of the type `istio.io/debug` and of types that begin with
`istio.io/debug/` with what it knows, to those that it allows. The protocol has nothing to tell
answers to two questions of a type apart, so there is one question at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from xds_proxy._errors import NoAnswer, NotConnected
from xds_proxy.protocol._dialect import Dialect

_TYPE = "istio.io/debug"

Send = Callable[[bytes], None]


def is_debug_type(type_url: str) -> bool:
    """Return whether responses of a type answer a question of an operator's."""
    return type_url == _TYPE or type_url.startswith(f"{_TYPE}/")


class DebugRequests:
    """At most one question under way; for all streams of the relay."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()
        self._asked: str | None = None
        self._answer: asyncio.Future[bytes] | None = None

    async def ask(
        self,
        type_url: str,
        names: Sequence[str],
        *,
        leading: Callable[[], tuple[Dialect, Send] | None],
        timeout_s: float,
    ) -> bytes:
        """Ask and return the answer, as a state-of-the-world response.

        leading: returns the dialect of the stream that leads, and what sends a request on it; None
        without one.

        Raises:
            NotConnected: there is no stream to the control plane.
            NoAnswer: no answer came in time; the time counts from the call.
        """
        try:
            async with asyncio.timeout(timeout_s), self._one_at_a_time:
                stream = leading()
                if stream is None:
                    raise NotConnected("there is no stream to the control plane")
                dialect, send = stream
                self._asked = type_url
                self._answer = asyncio.get_running_loop().create_future()
                try:
                    send(dialect.write_request(type_url=type_url, names=names))
                    return dialect.state_of_the_world(await self._answer)
                finally:
                    self._asked = self._answer = None
        except TimeoutError:
            raise NoAnswer(f"the control plane has not answered within {timeout_s:g} s") from None

    def on_response(self, type_url: str, response: bytes) -> bool:
        """A response came. Returns whether it is of a debug type, and so not for Envoy."""
        if not is_debug_type(type_url):
            return False
        if type_url == self._asked and self._answer is not None and not self._answer.done():
            self._answer.set_result(response)
        return True
