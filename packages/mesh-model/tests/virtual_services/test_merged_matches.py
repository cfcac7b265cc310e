"""Matches of roots and delegates: a merged one is met by the requests that meet both."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from istio_config.kinds.virtual_service import HttpMatch, StringMatch
from mesh_model.virtual_services._delegates import merged_match

ANY = StringMatch()


def exact(text: str) -> StringMatch:
    return StringMatch(exact=text)


def prefix(text: str) -> StringMatch:
    return StringMatch(prefix=text)


def regex(text: str) -> StringMatch:
    return StringMatch(regex=text)


@dataclass(frozen=True)
class Request:
    """A request, as matches see it."""

    path: str
    method: str
    headers: dict[str, str]
    params: dict[str, str]
    port: int
    labels: dict[str, str]


def meets(text: str | None, condition: StringMatch) -> bool:
    if text is None:
        return False
    if condition.exact is not None:
        return text == condition.exact
    return condition.prefix is None or text.startswith(condition.prefix)


def matches(match: HttpMatch, request: Request) -> bool:
    return (
        (match.uri is None or meets(request.path, match.uri))
        and (match.method is None or meets(request.method, match.method))
        and all(meets(request.headers.get(name), each) for name, each in match.headers.items())
        and not any(
            meets(request.headers.get(name), each) for name, each in match.without_headers.items()
        )
        and all(meets(request.params.get(name), each) for name, each in match.query_params.items())
        and match.port in (None, request.port)
        and match.source_labels.items() <= request.labels.items()
    )


texts = st.text("ab", min_size=1, max_size=3)
conditions = st.one_of(st.just(ANY), st.builds(exact, texts), st.builds(prefix, texts))
names = st.sampled_from(["x", "y"])
by_name = st.dictionaries(names, conditions, max_size=2)
ports = st.sampled_from([80, 81])
labels = st.dictionaries(names, st.sampled_from(["a", "b"]), max_size=2)
some_matches = st.builds(
    HttpMatch,
    uri=st.none() | conditions,
    method=st.none() | conditions,
    headers=by_name,
    without_headers=by_name,
    query_params=by_name,
    port=st.none() | ports,
    source_labels=labels,
)
requests = st.builds(
    Request,
    path=texts,
    method=texts,
    headers=st.dictionaries(names, texts),
    params=st.dictionaries(names, texts),
    port=ports,
    labels=labels,
)


@given(some_matches, some_matches, st.lists(requests, min_size=5, max_size=20))
def test_a_request_meets_the_merged_match_iff_it_meets_both(
    root: HttpMatch, delegate: HttpMatch, seen: list[Request]
) -> None:
    merged = merged_match(root, delegate)

    if merged is not None:
        assert [matches(merged, each) for each in seen] == [
            matches(root, each) and matches(delegate, each) for each in seen
        ]


CONFLICTS = [
    (HttpMatch(uri=prefix("/r")), HttpMatch(uri=prefix("/q"))),
    (HttpMatch(uri=prefix("/r")), HttpMatch(uri=exact("/q"))),
    (HttpMatch(uri=exact("/r")), HttpMatch(uri=prefix("/r"))),
    (HttpMatch(uri=exact("/r")), HttpMatch(uri=exact("/r/a"))),
    (HttpMatch(uri=regex("/r")), HttpMatch(uri=regex("/r"))),
    (HttpMatch(uri=prefix("/")), HttpMatch(uri=regex("/r"))),
    (HttpMatch(ignore_uri_case=True), HttpMatch()),
    (HttpMatch(headers={"x": exact("a")}), HttpMatch(headers={"x": exact("b")})),
    (HttpMatch(without_headers={"x": exact("a")}), HttpMatch(without_headers={"x": exact("b")})),
    (HttpMatch(query_params={"x": exact("a")}), HttpMatch(query_params={"x": prefix("b")})),
    (HttpMatch(port=80), HttpMatch(port=81)),
    (HttpMatch(source_namespace="a"), HttpMatch(source_namespace="b")),
    (HttpMatch(source_labels={"a": "b"}), HttpMatch(source_labels={"a": "c"})),
    (HttpMatch(gateways=("mesh",)), HttpMatch(gateways=("a/g",))),
]


@pytest.mark.parametrize(("root", "delegate"), CONFLICTS)
def test_matches_that_conflict_are_not_merged(root: HttpMatch, delegate: HttpMatch) -> None:
    assert merged_match(root, delegate) is None


def test_a_merged_match_bears_both_names_and_the_narrower_conditions() -> None:
    root = HttpMatch(name="r", uri=prefix("/r"), headers={"x": ANY}, stat_prefix="s")
    delegate = HttpMatch(name="d", uri=exact("/r/a"), headers={"x": exact("a"), "y": ANY}, port=80)

    assert merged_match(root, delegate) == HttpMatch(
        name="r-d",
        uri=exact("/r/a"),
        headers={"x": exact("a"), "y": ANY},
        port=80,
        stat_prefix="s",
    )
