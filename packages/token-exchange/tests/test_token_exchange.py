import asyncio
import json
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_lifecycle.testing import ManualClock
from mesh_testkit import until
from mesh_token_exchange import (
    Answer,
    ExchangeLimits,
    ExchangeRefused,
    ExchangeUnavailable,
    InvalidConfig,
    TokenExchange,
)
from mesh_token_exchange.testing import FakeExchanger

FORM = "application/x-www-form-urlencoded"


class Application(Protocol):
    """The application of conftest, as the type checker sees it."""

    exchange: TokenExchange

    async def post(self, *further: tuple[str, str], without: str = "") -> Answer: ...
    async def post_body(self, body: bytes) -> Answer: ...


class ApplicationOf(Protocol):
    def __call__(self, exchange: TokenExchange) -> Application: ...


@pytest.fixture
async def exchanger() -> FakeExchanger:
    return FakeExchanger()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def application(
    exchanger: FakeExchanger, clock: ManualClock, application_of: ApplicationOf
) -> Application:
    return application_of(TokenExchange(exchanger, clock=clock))


def document(answer: Answer) -> dict[str, object]:
    assert answer.content_type == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    fields: dict[str, object] = json.loads(answer.body)
    return fields


def error(answer: Answer) -> tuple[int, object]:
    fields = document(answer)
    assert fields.keys() == {"error", "error_description", "error_uri"}
    return answer.status, fields["error"]


async def test_token_is_answered(application: Application, exchanger: FakeExchanger) -> None:
    answer = await application.post(
        ("audience", "a"),
        ("audience", "b"),
        ("resource", "https://c/"),
        ("scope", "read write"),
        ("actor_token", "actor"),
        ("actor_token_type", "urn:x"),
        ("requested_token_type", "urn:y"),
        ("unknown", "ignored"),
    )
    assert answer.status == 200
    assert document(answer) == {
        "access_token": "issued-1",
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "token_type": "Bearer",
        "expires_in": 3600,
    }
    (request,) = exchanger.requests
    assert request.audience == ("a", "b")
    assert request.resource == ("https://c/",)
    assert (request.scope, request.requested_token_type) == ("read write", "urn:y")
    assert (request.subject_token, request.actor_token) == ("e30.subject.e30", "actor")


@pytest.mark.parametrize("name", ["grant_type", "subject_token", "subject_token_type"])
async def test_required_parameter_is_missing_or_empty(application: Application, name: str) -> None:
    assert error(await application.post(without=name)) == (400, "invalid_request")
    assert error(await application.post((name, ""), without=name)) == (400, "invalid_request")


@pytest.mark.parametrize(
    "further",
    [
        [("subject_token", "e30.subject.e30")],
        [("scope", "a"), ("scope", "b")],
        [("scope", ""), ("scope", "b")],
        [("x", "a"), ("x", "b")],
        [("scope", "a  b")],
        [("scope", 'a"b')],
        [("actor_token", "a")],
        [("actor_token_type", "a")],
        [("actor_token", "a b"), ("actor_token_type", "a")],
        [("resource", "orders")],
        [("resource", "https://orders/#here")],
        [("audience", "a\nb")],
    ],
)
async def test_parameter_is_invalid(
    application: Application, exchanger: FakeExchanger, further: list[tuple[str, str]]
) -> None:
    assert error(await application.post(*further)) == (400, "invalid_request")
    assert not exchanger.requests


@pytest.mark.parametrize(
    "content_type", ["", "application/json", f"{FORM}; charset=utf-8", FORM.upper()]
)
async def test_only_a_form_is_read(application: Application, content_type: str) -> None:
    answer = await application.exchange.answer("POST", "/token", content_type, b"")
    assert error(answer) == (400, "invalid_request")


async def test_other_paths_and_methods(application: Application) -> None:
    answer = application.exchange.answer
    for path in ("/", "/token/", "/Token", "", "/token?grant_type=x"):
        assert error(await answer("POST", path, FORM, b"")) == (404, "invalid_request")
    for method, path, allowed in (("GET", "/token", "POST"), ("POST", "/stsStatus", "GET")):
        refused = await answer(method, path, FORM, b"")
        assert error(refused) == (405, "invalid_request")
        assert refused.headers["Allow"] == allowed


async def test_large_body_is_refused(application: Application) -> None:
    refused = await application.post_body(b"subject_token=" + b"a" * 20_000_000)
    assert error(refused) == (413, "invalid_request")


@given(
    st.text(),
    st.sampled_from(["/token", "/stsStatus", "/"]),
    st.sampled_from([FORM, ""]),
    st.binary() | st.text("%&=+", max_size=30).map(str.encode),
)
def test_any_request_is_answered(method: str, path: str, content_type: str, body: bytes) -> None:
    async def answer() -> Answer:
        exchange = TokenExchange(FakeExchanger())
        await exchange.answer(method, path, content_type, body)
        return await exchange.answer("POST", path, content_type, body)

    with asyncio.Runner() as runner:
        assert json.loads(runner.run(answer()).body)


async def test_refusal_is_reported_with_its_code(
    application: Application, exchanger: FakeExchanger
) -> None:
    exchanger.error = ExchangeRefused("invalid_scope", 'no "x" \\ \n \u20ac' + "x" * 1000)
    answer = await application.post()
    assert error(answer) == (400, "invalid_scope")
    description = str(document(answer)["error_description"])
    assert description.startswith("no 'x' ? ? ?xxx")
    assert len(description) == 300


async def test_failure_is_reported_and_not_kept(
    application: Application, exchanger: FakeExchanger
) -> None:
    exchanger.error = ExchangeUnavailable("nothing answers")
    assert error(await application.post()) == (500, "invalid_target")
    exchanger.error = None
    assert document(await application.post())["access_token"] == "issued-2"


async def test_token_is_reused_while_it_is_valid_for_long_enough(
    application: Application, clock: ManualClock
) -> None:
    for passed_s, remaining_s, token in (
        (0, 3600, "issued-1"),
        (3299.5, 300, "issued-1"),
        (0.5, 3600, "issued-2"),
    ):
        await clock.advance(passed_s)
        fields = document(await application.post())
        assert (fields["access_token"], fields["expires_in"]) == (token, remaining_s)


async def test_clock_that_is_set_changes_no_token_that_is_over(
    application: Application, clock: ManualClock
) -> None:
    await application.post()
    clock.jump(3500)  # while the machine slept
    assert document(await application.post())["access_token"] == "issued-2"
    clock.jump(-7200)
    await clock.advance(3500)
    assert document(await application.post())["access_token"] == "issued-3"


@pytest.mark.parametrize("lifetime_s", [None, 0.0, 300.0])
async def test_token_of_unknown_or_short_life_is_not_reused(
    application: Application, exchanger: FakeExchanger, lifetime_s: float | None
) -> None:
    exchanger.lifetime_s = lifetime_s
    fields = document(await application.post())
    assert fields.get("expires_in") == lifetime_s
    assert document(await application.post())["access_token"] == "issued-2"


@pytest.mark.parametrize(
    "further",
    [
        [("audience", "a")],
        [("resource", "urn:a")],
        [("scope", "a")],
        [("requested_token_type", "a")],
        [("actor_token", "a"), ("actor_token_type", "a")],
    ],
)
async def test_other_request_gets_another_token(
    application: Application, further: list[tuple[str, str]]
) -> None:
    assert document(await application.post())["access_token"] == "issued-1"
    for _ in range(2):
        assert document(await application.post(*further))["access_token"] == "issued-2"


async def test_same_requests_at_once_are_one_exchange(
    application: Application, exchanger: FakeExchanger
) -> None:
    exchanger.may_answer.clear()
    posts = [asyncio.create_task(application.post(), name=f"{n}") for n in range(20)]
    other = asyncio.create_task(application.post(("audience", "a")), name="other")
    await until(lambda: len(exchanger.requests) == 2, what="both exchanges")
    exchanger.may_answer.set()
    answers = await asyncio.gather(*posts)
    assert {document(each)["access_token"] for each in answers} == {"issued-1"}
    assert document(await other)["access_token"] == "issued-2"
    assert len(exchanger.requests) == 2


@pytest.mark.parametrize(
    "failure", [ExchangeRefused("invalid_grant", "no"), ExchangeUnavailable("no")]
)
async def test_same_requests_at_once_share_a_failure(
    application: Application, exchanger: FakeExchanger, failure: Exception
) -> None:
    assert isinstance(failure, ExchangeRefused | ExchangeUnavailable)
    exchanger.error = failure
    exchanger.may_answer.clear()
    posts = [asyncio.create_task(application.post(), name=f"{n}") for n in range(5)]
    await until(lambda: exchanger.requests, what="the exchange")
    exchanger.may_answer.set()
    assert {each.status for each in await asyncio.gather(*posts)} in ({400}, {500})
    assert len(exchanger.requests) == 1


async def test_request_that_is_cancelled_takes_no_other_one_along(
    application: Application, exchanger: FakeExchanger
) -> None:
    exchanger.may_answer.clear()
    first = asyncio.create_task(application.post(), name="first")
    await until(lambda: exchanger.requests, what="the exchange")
    others = [asyncio.create_task(application.post(), name=f"{n}") for n in range(3)]
    await asyncio.sleep(0)
    others[0].cancel()
    first.cancel()
    await until(lambda: len(exchanger.requests) == 2, what="the exchange of another request")
    exchanger.may_answer.set()
    assert {document(await each)["access_token"] for each in others[1:]} == {"issued-2"}
    assert first.cancelled()
    assert others[0].cancelled()
    assert len(exchanger.requests) == 2


async def test_error_of_the_exchanger_itself_is_not_hidden_and_leaves_nothing(
    application: Application, exchanger: FakeExchanger
) -> None:
    exchanger.lifetime_s = -1  # which no token can have
    with pytest.raises(ValueError, match="expires_in_s"):
        await application.post()
    exchanger.lifetime_s = 3600
    assert document(await application.post())["access_token"] == "issued-2"


async def test_exchanges_at_a_time_are_limited(application_of: ApplicationOf) -> None:
    exchanger = FakeExchanger()
    exchanger.may_answer.clear()
    application = application_of(TokenExchange(exchanger, limits=ExchangeLimits(max_exchanges=2)))
    posts = [asyncio.create_task(application.post(("audience", name)), name=name) for name in "ab"]
    await until(lambda: len(exchanger.requests) == 2, what="both exchanges")
    assert error(await application.post(("audience", "c"))) == (500, "invalid_target")
    exchanger.may_answer.set()
    assert [each.status for each in await asyncio.gather(*posts)] == [200, 200]
    assert (await application.post(("audience", "c"))).status == 200


async def test_kept_tokens_are_limited_and_the_least_used_goes_first(
    application_of: ApplicationOf,
) -> None:
    exchanger = FakeExchanger()
    application = application_of(TokenExchange(exchanger, limits=ExchangeLimits(max_tokens=2)))
    for audience in "aba":
        await application.post(("audience", audience))
    await application.post(("audience", "c"))
    assert len(exchanger.requests) == 3
    await application.post(("audience", "a"))
    assert len(exchanger.requests) == 3
    await application.post(("audience", "b"))
    assert len(exchanger.requests) == 4


async def test_thousands_of_requests_leave_a_thousand_tokens(application: Application) -> None:
    for number in range(1100):
        await application.post(("audience", f"{number}"))
    status = document(await application.exchange.answer("GET", "/stsStatus", "", b""))
    tokens = status["tokens"]
    assert isinstance(tokens, list)
    assert len(tokens) == 1000


async def test_status_tells_of_tokens_without_their_values(
    application: Application, clock: ManualClock
) -> None:
    await application.post(("audience", "orders" * 100), ("resource", "urn:a"))
    answer = await application.exchange.answer("GET", "/stsStatus", "", b"")
    assert document(answer) == {
        "tokens": [
            {
                "token_type": "urn:ietf:params:oauth:token-type:access_token",
                "issue_time": "2023-11-14T22:13:20+00:00",
                "expire_time": "2023-11-14T23:13:20+00:00",
                "audience": [("orders" * 100)[:200]],
                "resource": ["urn:a"],
                "scope": None,
            }
        ],
        "exchanges": 0,
    }
    await clock.advance(3300)
    assert document(await application.exchange.answer("GET", "/stsStatus", "", b""))["tokens"] == []


async def test_other_subject_token_types_are_a_choice(application_of: ApplicationOf) -> None:
    exchange = TokenExchange(FakeExchanger(), subject_token_types=["urn:saml"])
    application = application_of(exchange)
    assert error(await application.post()) == (400, "invalid_request")
    posted = application.post(("subject_token_type", "urn:saml"), without="subject_token_type")
    assert (await posted).status == 200


@pytest.mark.parametrize(
    "limits", [{"max_body_bytes": 0}, {"max_exchanges": 0}, {"max_tokens": -1}]
)
def test_limits_that_can_not_be_right(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidConfig):
        ExchangeLimits(**limits)
