"""No token and no secret is shown: in logs at debug level, errors with their causes, the status."""

import base64
import logging
import traceback
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlencode

import pytest

from mesh_token_exchange import (
    JWT,
    TOKEN_EXCHANGE,
    Answer,
    ExchangeRequest,
    Rfc8693Config,
    Rfc8693Exchanger,
    TokenExchange,
    TokenExchangeError,
)
from mesh_token_exchange.testing import FakeAuthorizationServer, Fault

SUBJECT, ACTOR, SECRET = "zebra.subject.token", "zebra.actor.token", "zebra-secret"
CANARIES = ("zebra", base64.b64encode(f"me:{SECRET}".encode()).decode(), "issued-")


async def test_no_token_and_no_secret_is_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "secret").write_text(SECRET)
    request = ExchangeRequest(
        subject_token=SUBJECT, subject_token_type=JWT, actor_token=ACTOR, actor_token_type="urn:a"
    )
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": SUBJECT,
        "subject_token_type": JWT,
        "actor_token": ACTOR,
        "actor_token_type": "urn:a",
    }
    shown: list[object] = [request]
    answers: list[Answer] = []
    async with FakeAuthorizationServer() as server:
        config = Rfc8693Config(
            url=server.url,
            client_id="me",
            client_secret_file=tmp_path / "secret",
            timeout_s=0.3,
            max_retries=1,
        )
        exchanger = Rfc8693Exchanger(config)
        exchange = TokenExchange(exchanger)

        async def post(body: str) -> None:
            content_type = "application/x-www-form-urlencoded"
            answers.append(await exchange.answer("POST", "/token", content_type, body.encode()))

        for fault in Fault:
            server.fail(fault)
            await post(urlencode(form))
            assert answers[-1].status in {400, 500}, fault
            try:
                shown.append(await exchanger.exchange(request))
            except TokenExchangeError as error:
                shown += [error, "".join(traceback.format_exception(error))]
                cause: BaseException | None = error
                while cause is not None:
                    shown += [cause, cause.args, vars(cause)]
                    cause = cause.__cause__ or cause.__context__
        for broken in ("%zz", "%ff", "&subject_token=zebra", "&zebra=1&zebra=2"):
            await post(urlencode(form) + broken)
            assert answers[-1].status == 400
        status = await exchange.answer("GET", "/stsStatus", "", b"")
        assert b'"tokens": []' in status.body
        failures = list(answers)
        server.fail(None)
        await post(urlencode(form))
        assert answers[-1].status == 200
        status = await exchange.answer("GET", "/stsStatus", "", b"")
        shown += [await exchanger.exchange(request), server.requests[0], exchange, config]
    texts = [str(record.__dict__) for record in caplog.records]
    assert any("token exchange failed" in text for text in texts)
    texts += [f"{each!r} {each}" for each in (*shown, *answers)]
    texts += [each.body.decode() for each in (*failures, status)]
    assert not [text for text in texts for canary in CANARIES if canary in text]
    # The subject token is not kept either, not even where a repr leaves it out.
    kept = repr([asdict(each) for each in vars(exchange)["_cache"]])
    assert "issued-" in kept
    assert "zebra" not in kept
