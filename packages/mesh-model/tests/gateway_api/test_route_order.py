"""The order of matches is total, stable, and gives each request to the most specific match."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gateway_api_meshes import (
    SERVICES,
    Request,
    first_route,
    mesh_facts,
    objects_of,
    path_matches,
)
from istio_config import ConfigObject, InFile
from istio_config.kinds.gateway_api import (
    HttpMatch,
    HttpRouteSpec,
    HttpRule,
    ParentReference,
    PathMatch,
    PathType,
    ValueMatch,
)
from istio_config.kinds.virtual_service import HttpRoute, StringMatch, VirtualServiceSpec
from mesh_model.gateway_api._translation import GatewayApi

GATEWAY = """
kind: Gateway
metadata: {name: gw}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
"""

_paths = st.sampled_from(["/", "/a", "/a/b", "/ab", "/b"])
_names = st.sampled_from(["x", "y"])
_values = st.lists(_names, unique=True, max_size=2).map(
    lambda names: tuple(ValueMatch(name=name, value="1") for name in names)
)
_matches = st.builds(
    HttpMatch,
    path=st.builds(
        PathMatch, type=st.sampled_from([PathType.EXACT, PathType.PATH_PREFIX]), value=_paths
    ),
    method=st.sampled_from([None, "GET", "POST"]),
    headers=_values,
    query_params=_values,
)
_rules = st.lists(_matches, min_size=1, max_size=3).map(lambda each: HttpRule(matches=tuple(each)))
_specs = st.lists(_rules, min_size=1, max_size=3).map(
    lambda rules: HttpRouteSpec(parent_refs=(ParentReference(name="gw"),), rules=tuple(rules))
)
_dates = st.sampled_from(["", "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"])
_routes = st.lists(st.tuples(_specs, _dates), min_size=1, max_size=4)
_requests = st.builds(
    Request,
    path=st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/ab", "/b/c"]),
    method=st.sampled_from(["GET", "POST"]),
    headers=st.dictionaries(_names, st.just("1")),
    query=st.dictionaries(_names, st.just("1")),
)


def objects(routes: list[tuple[HttpRouteSpec, str]]) -> tuple[ConfigObject, ...]:
    return tuple(
        ConfigObject(
            kind="HTTPRoute",
            namespace="shop",
            name=f"r{number}",
            spec=spec,
            created=created,
            origin=InFile("mesh.yaml", 1),
        )
        for number, (spec, created) in enumerate(routes)
    )


def table(routes: tuple[ConfigObject, ...]) -> tuple[HttpRoute, ...]:
    api = GatewayApi.build((*objects_of(GATEWAY), *routes), mesh_facts(SERVICES))
    (found,) = api.virtual_services
    assert isinstance(found.spec, VirtualServiceSpec)
    return found.spec.http


@given(_routes, st.randoms(use_true_random=False))
def test_the_order_of_routes_is_the_same_in_whatever_order_they_are_read(
    routes: list[tuple[HttpRouteSpec, str]], random: Random
) -> None:
    items = objects(routes)
    shuffled = list(items)
    random.shuffle(shuffled)
    assert table(tuple(shuffled)) == table(items)
    names = [each.name for each in table(items)]
    assert len(names) == len(set(names))


@given(_routes, _requests)
def test_a_request_goes_to_the_match_that_the_specification_prefers(
    routes: list[tuple[HttpRouteSpec, str]], request: Request
) -> None:
    items = objects(routes)
    found = first_route(table(items), request)
    wanted = min(
        (
            (*specificity(match), item.created or "9999", item.name, rule, number)
            for item in items
            if isinstance(item.spec, HttpRouteSpec)
            for rule, each in enumerate(item.spec.rules)
            for number, match in enumerate(each.matches)
            if meets(match, request)
        ),
        default=None,
    )
    if wanted is None:
        assert found is None
    else:
        assert found is not None
        assert found.name == "shop.{}.{}.{}".format(*wanted[-3:])


def specificity(match: HttpMatch) -> tuple[bool, int, bool, int, int]:
    """Rank a match by the words of the specification: the smaller, the more specific."""
    return (
        match.path.type is not PathType.EXACT,
        -len(match.path.value),
        match.method is None,
        -len(match.headers),
        -len(match.query_params),
    )


def meets(match: HttpMatch, request: Request) -> bool:
    exact = match.path.type is PathType.EXACT
    uri = StringMatch(exact=match.path.value) if exact else StringMatch(prefix=match.path.value)
    return (
        path_matches(uri, request.path)
        and match.method in (None, request.method)
        and all(each.name in request.headers for each in match.headers)
        and all(each.name in request.query for each in match.query_params)
    )
