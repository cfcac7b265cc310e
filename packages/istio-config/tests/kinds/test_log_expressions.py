"""Expressions in CEL are let through only if Envoy takes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from istio_config.kinds.formats._expressions import expression_mistake, unknown_names
from log_expressions import NOT_VOUCHED_FOR, REFUSED, TAKEN


@pytest.mark.parametrize("text", TAKEN)
def test_an_expression_that_envoy_takes_is_right(text: str) -> None:
    assert expression_mistake(text) is None


@pytest.mark.parametrize("text", [*REFUSED, *NOT_VOUCHED_FOR])
def test_an_expression_that_envoy_may_refuse_is_reported(text: str) -> None:
    assert expression_mistake(text)


def test_names_are_those_of_values_and_not_of_fields_or_functions() -> None:
    text = "request.code == 1 && size(node.id) > 2 && type(foo) == int && has(bar.request)"

    assert unknown_names(text) == ("node", "foo", "bar")


@given(st.text(alphabet="ab1.()[]{}\"'\\!-+<>=&|?:, inru%", max_size=30))
def test_any_text_is_judged_without_an_error(text: str) -> None:
    mistake = expression_mistake(text)

    assert mistake is None or mistake
