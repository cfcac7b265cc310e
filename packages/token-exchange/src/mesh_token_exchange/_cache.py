"""Tokens that were issued, kept as long as they are good for another answer.

They are found by a keyed hash of the whole request. The tokens of the request are not kept, and the
hash tells nothing to a reader who does not know the key, which is random for each cache.
"""

import secrets
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from hashlib import blake2b

from mesh_lifecycle import Clock
from mesh_token_exchange._messages import AccessToken, ExchangeRequest

_MAX_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A token, with the moment before which it was asked for, on both clocks.

    audience, resource: of the request, for the status; shortened.
    """

    token: AccessToken
    asked_at: float
    asked_monotonic: float
    audience: tuple[str, ...]
    resource: tuple[str, ...]

    def remaining_s(self, clock: Clock) -> float | None:
        """Return how long the token is valid still; None if that is not known.

        The wall clock may be set back, and the other one stands still while a machine sleeps: the
        one by which more time has gone counts.
        """
        if self.token.expires_in_s is None:
            return None
        gone = max(clock.now() - self.asked_at, clock.monotonic() - self.asked_monotonic)
        return self.token.expires_in_s - gone


def issued(
    token: AccessToken, request: ExchangeRequest, *, asked_at: float, asked_monotonic: float
) -> Issued:
    """Return a token with what is shown of it; of the request, no token is kept."""
    return Issued(
        token=token,
        asked_at=asked_at,
        asked_monotonic=asked_monotonic,
        audience=tuple(each[:_MAX_SHOWN] for each in request.audience),
        resource=tuple(each[:_MAX_SHOWN] for each in request.resource),
    )


class TokenCache:
    """At most `max_tokens`; the one that was not used for the longest time goes first."""

    def __init__(self, clock: Clock, *, max_tokens: int, reuse_above_s: float) -> None:
        self._clock = clock
        self._max_tokens = max_tokens
        self._reuse_above_s = reuse_above_s
        self._secret = secrets.token_bytes(32)
        self._issued: OrderedDict[bytes, Issued] = OrderedDict()

    def key(self, request: ExchangeRequest) -> bytes:
        """Return what tells this request from every other one."""
        return blake2b(repr(astuple(request)).encode(), key=self._secret, digest_size=32).digest()

    def find(self, key: bytes) -> Issued | None:
        """Return the token of a request if it may be handed out again."""
        found = self._issued.get(key)
        if found is None:
            return None
        if not self._may_be_reused(found):
            del self._issued[key]
            return None
        self._issued.move_to_end(key)
        return found

    def add(self, key: bytes, found: Issued) -> None:
        """Keep a token, unless it is not good for another answer."""
        if not self._may_be_reused(found):
            return
        self._issued[key] = found
        self._issued.move_to_end(key)
        if len(self._issued) > self._max_tokens:
            self._drop_old()
        while len(self._issued) > self._max_tokens:
            self._issued.popitem(last=False)

    def __iter__(self) -> Iterator[Issued]:
        """Iterate over the tokens that may be handed out again."""
        self._drop_old()
        return iter(tuple(self._issued.values()))

    def _drop_old(self) -> None:
        for key in [key for key, each in self._issued.items() if not self._may_be_reused(each)]:
            del self._issued[key]

    def _may_be_reused(self, found: Issued) -> bool:
        remaining_s = found.remaining_s(self._clock)
        return remaining_s is not None and remaining_s > self._reuse_above_s
