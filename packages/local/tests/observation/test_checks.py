import json

import pytest

from mesh_local import MeshPlan
from mesh_local.config._shapes import Expectation
from mesh_local.observation._checks import Hop, find_hop, unmet
from mesh_local.observation._checks import _route as route
from mesh_local.observation._http import Answer

BACKEND = "spiffe://example.org/ns/shop/sa/backend"
WEB = "spiffe://example.org/ns/shop/sa/web"
HEADER = f'By={BACKEND};Hash=abc;Subject="";URI={WEB}'


def answer(status: int = 200, body: str = "", **headers: str) -> Answer:
    return Answer(status=status, headers=headers, body=body, elapsed_s=0.1)


def test_a_user_asks_the_program_an_outsider_the_envoy_a_workload_its_own(plan: MeshPlan) -> None:
    user, frontend, outsider = plan.file.checks
    assert route(user, plan) == ("127.64.3.2", 8080, "/")
    assert route(frontend, plan) == ("127.64.3.3", 15002, "http://backend:8080/a?b=c")
    assert route(outsider, plan) == ("127.64.1.1", 8080, "/")


@pytest.mark.parametrize(
    "body", [HEADER, json.dumps({"xfcc": HEADER}), json.dumps({"said": json.dumps([HEADER])})]
)
def test_the_caller_is_found_wherever_the_program_shows_it(body: str) -> None:
    assert find_hop(answer(body=body)) == Hop(callee=BACKEND, caller=WEB)


def test_the_caller_is_found_in_a_header() -> None:
    seen = Answer(status=200, headers={"x-forwarded-client-cert": HEADER}, body="", elapsed_s=0.0)
    assert find_hop(seen) == Hop(callee=BACKEND, caller=WEB)


@pytest.mark.parametrize("before", ["By=spiffe://a/b", f"By={BACKEND};URI=spiffe://forged/a"])
def test_only_the_last_hop_is_believed(before: str) -> None:
    found = find_hop(answer(body=f"{before},{HEADER}"))
    assert found == Hop(callee=BACKEND, caller=WEB)


@pytest.mark.parametrize(
    ("expect", "seen", "failures"),
    [
        (Expectation(status=200), answer(200), []),
        (Expectation(status=200), answer(503), ["expected status 200, got 503"]),
        (Expectation(text="hello"), answer(body="so hello"), []),
        (
            Expectation(text="hello"),
            answer(body="bye"),
            ['expected the text "hello" in the answer, which is not there'],
        ),
        (Expectation(caller=WEB), answer(body=HEADER), []),
        (
            Expectation(caller=BACKEND),
            answer(body=HEADER),
            [f"expected the caller {BACKEND}, but it was {WEB}"],
        ),
        (
            Expectation(caller=WEB),
            answer(),
            [
                (
                    f"expected the caller {WEB}, but the answer shows no x-forwarded-client-cert "
                    "that the called program got"
                )
            ],
        ),
        (Expectation(refused=True), None, []),
        (
            Expectation(refused=True),
            answer(200),
            ["expected the request to be refused, but it was answered with 200"],
        ),
        (Expectation(status=200), None, ["expected an answer, but the request failed: reset"]),
    ],
)
def test_what_is_not_as_expected_is_named(
    expect: Expectation, seen: Answer | None, failures: list[str]
) -> None:
    assert unmet(expect, seen, None if seen else "reset") == failures
