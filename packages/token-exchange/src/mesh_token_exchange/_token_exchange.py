"""The service: from a request to an answer, with one call upstream for requests that are alike."""

import asyncio
import logging
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mesh_lifecycle import Clock, RepeatLog, SystemClock, check_fields
from mesh_token_exchange._answer import Answer, failure, success
from mesh_token_exchange._cache import Issued, TokenCache, issued
from mesh_token_exchange._errors import (
    ExchangeRefused,
    ExchangeUnavailable,
    InvalidConfig,
    InvalidRequest,
)
from mesh_token_exchange._form import parse_form
from mesh_token_exchange._messages import JWT, Exchanger, ExchangeRequest
from mesh_token_exchange._request import exchange_request

log = logging.getLogger("mesh_token_exchange")

TOKEN_PATH: Final = "/token"  # noqa: S105 - a path, no token
STATUS_PATH: Final = "/stsStatus"
_METHODS: Final[Mapping[str, str]] = {TOKEN_PATH: "POST", STATUS_PATH: "GET"}
_FORM: Final = "application/x-www-form-urlencoded"

_Outcome = Issued | ExchangeRefused | ExchangeUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeLimits:
    """The sizes and numbers that a `TokenExchange` takes and keeps.

    max_body_bytes: of a request; give it to the HTTP server too, which reads the body.
    max_parameters: of a request.
    max_exchanges: different requests that wait for the exchanger at a time; further ones are
        answered with an error.
    max_tokens: kept to be handed out again.
    reuse_above_s: a token is handed out again while it is valid for longer than this.
    """

    max_body_bytes: int = 65_536
    max_parameters: int = 64
    max_exchanges: int = 100
    max_tokens: int = 1_000
    reuse_above_s: float = 300.0

    def __post_init__(self) -> None:
        check_fields(self, error=InvalidConfig)
        least = min(self.max_body_bytes, self.max_parameters, self.max_exchanges)
        if least < 1 or self.max_tokens < 0 or self.reuse_above_s < 0:
            raise InvalidConfig("limits must be at least 1, max_tokens and reuse_above_s 0")


class TokenExchange:
    """Answers the token exchange requests of applications.

    Concurrent requests that are alike cause one call of the exchanger, and its token is handed out
    again while it is valid for long enough.
    """

    def __init__(
        self,
        exchanger: Exchanger,
        *,
        clock: Clock | None = None,
        limits: ExchangeLimits | None = None,
        subject_token_types: Collection[str] = (JWT,),
    ) -> None:
        self._exchanger = exchanger
        self._clock = clock or SystemClock()
        self._limits = limits or ExchangeLimits()
        self._subject_token_types = tuple(subject_token_types)
        self._cache = TokenCache(
            self._clock,
            max_tokens=self._limits.max_tokens,
            reuse_above_s=self._limits.reuse_above_s,
        )
        self._failing = RepeatLog(log, "token exchange failed")
        self._running: dict[bytes, asyncio.Future[_Outcome | None]] = {}

    async def answer(self, method: str, path: str, content_type: str, body: bytes) -> Answer:
        """Return the response to a request; mistakes of an application raise nothing.

        path: without the query.
        content_type: the header's value, "" without one.
        """
        allowed = _METHODS.get(path)
        if allowed is None:
            return failure(404, "invalid_request", f"only {' and '.join(_METHODS)} are served")
        if method != allowed:
            return failure(405, "invalid_request", f"the method must be {allowed}", Allow=allowed)
        if path == STATUS_PATH:
            return success(self._status())
        if len(body) > self._limits.max_body_bytes:
            problem = f"the body is larger than {self._limits.max_body_bytes} bytes"
            return failure(413, "invalid_request", problem)
        try:
            request = self._read(content_type, body)
        except InvalidRequest as error:
            log.debug("token exchange request is invalid", extra={"reason": str(error)})
            return failure(400, "invalid_request", str(error))
        return self._answer_of(await self._outcome_of(request))

    def _read(self, content_type: str, body: bytes) -> ExchangeRequest:
        if content_type != _FORM:
            raise InvalidRequest(f"the content type must be {_FORM}")
        pairs = parse_form(body, max_parameters=self._limits.max_parameters)
        return exchange_request(pairs, subject_token_types=self._subject_token_types)

    async def _outcome_of(self, request: ExchangeRequest) -> _Outcome:
        key = self._cache.key(request)
        while True:
            if (found := self._cache.find(key)) is not None:
                return found
            running = self._running.get(key)
            if running is None:
                return await self._exchange(key, request)
            # Without an outcome, the request that began the call was cancelled: this one makes it.
            if (outcome := await asyncio.shield(running)) is not None:
                return outcome

    async def _exchange(self, key: bytes, request: ExchangeRequest) -> _Outcome:
        """Call the exchanger, and share its outcome with the requests that came meanwhile."""
        if len(self._running) >= self._limits.max_exchanges:
            reason = f"{len(self._running)} exchanges are already under way"
            self._failing.happened("", reason=reason)
            return ExchangeUnavailable(reason)
        running = self._running[key] = asyncio.get_running_loop().create_future()
        outcome: _Outcome | None = None
        now, monotonic = self._clock.now(), self._clock.monotonic()
        try:
            token = await self._exchanger.exchange(request)
            outcome = issued(token, request, asked_at=now, asked_monotonic=monotonic)
            self._cache.add(key, outcome)
            self._failing.ended("")
            log.debug("token exchanged", extra={"expires_in_s": token.expires_in_s})
        except ExchangeRefused as error:
            outcome = error
            log.info("token exchange refused", extra={"error_code": error.code})
        except ExchangeUnavailable as error:
            outcome = error
            self._failing.happened("", reason=error.reason)
        finally:
            del self._running[key]
            running.set_result(outcome)
        return outcome

    def _answer_of(self, outcome: _Outcome) -> Answer:
        if isinstance(outcome, ExchangeRefused):
            return failure(400, outcome.code, outcome.description)
        if isinstance(outcome, ExchangeUnavailable):
            return failure(500, "invalid_target", outcome.reason)
        token = outcome.token
        fields: dict[str, object] = {
            "access_token": token.value,
            "issued_token_type": token.issued_token_type,
            "token_type": token.token_type,
        }
        if (remaining_s := outcome.remaining_s(self._clock)) is not None:
            fields["expires_in"] = max(0, math.floor(remaining_s))
        if token.scope is not None:
            fields["scope"] = token.scope
        return success(fields)

    def _status(self) -> dict[str, object]:
        """Describe the tokens that are kept, but for their values; with Istio's names."""
        return {
            "tokens": [
                {
                    "token_type": each.token.issued_token_type,
                    "issue_time": _time(each.asked_at),
                    "expire_time": _time(each.asked_at + (each.token.expires_in_s or 0)),
                    "audience": each.audience,
                    "resource": each.resource,
                    "scope": each.token.scope,
                }
                for each in self._cache
            ],
            "exchanges": len(self._running),
        }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
