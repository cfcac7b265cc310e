"""The page about Istio's settings says what the agent does."""

import istio_compatibility


def test_the_page_is_up_to_date() -> None:
    assert istio_compatibility.PAGE.read_text() == istio_compatibility.page(), (
        "run python tools/istio_compatibility.py --write"
    )
