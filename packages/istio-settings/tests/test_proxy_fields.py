import pytest

from istio_settings import JSON, Fields, LayerField, parse_layer

TRACING = LayerField(parse_layer("PROXY_CONFIG", "{}"), ("tracing",))


@pytest.mark.parametrize("value", [-1, 101, 10**400, float("nan"), True, "1", []])
def test_what_is_no_number_in_range_is_a_problem(value: JSON) -> None:
    problems: list[str] = []
    fields = Fields({"sampling": value}, place=TRACING, problems=problems)
    assert fields.number_between("sampling", 0, 100) is None
    assert problems == [
        f"PROXY_CONFIG: tracing.sampling is {value!r}, it must be a number between 0 and 100"
    ]


@pytest.mark.parametrize("value", [0, 0.5, 100])
def test_a_number_in_range_is_taken(value: float) -> None:
    problems: list[str] = []
    fields = Fields({"sampling": value}, place=TRACING, problems=problems)
    assert fields.number_between("sampling", 0, 100) == value
    assert not problems
