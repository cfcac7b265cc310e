"""The regular expressions of a VirtualService, and how often Envoy compiles each."""

from collections.abc import Iterator

from istio_config.kinds._regular_expressions import Expression
from istio_config.kinds.virtual_service._matches import HttpMatch
from istio_config.kinds.virtual_service._spec import HttpRoute, VirtualServiceSpec
from mesh_configfile import FieldPath


def expressions(spec: VirtualServiceSpec) -> Iterator[Expression]:
    """Yield all regular expressions of routes."""
    for index, route in enumerate(spec.http):
        yield from _of_route(route, ("http", index))


def _of_route(route: HttpRoute, path: FieldPath) -> Iterator[Expression]:
    for index, match in enumerate(route.match):
        yield from _of_match(match, (*path, "match", index))
    # Envoy has a route for each match, with all that is done then.
    times = max(1, len(route.match))
    if route.rewrite is not None and route.rewrite.uri_regex_rewrite is not None:
        text = route.rewrite.uri_regex_rewrite.match
        place = (*path, "rewrite", "uriRegexRewrite", "match")
        yield Expression(place, text, times)
    if route.cors_policy is not None:
        for index, origin in enumerate(route.cors_policy.allow_origins):
            if origin.regex is not None:
                place = (*path, "corsPolicy", "allowOrigins", index, "regex")
                yield Expression(place, origin.regex, times)


def _of_match(match: HttpMatch, path: FieldPath) -> Iterator[Expression]:
    for field, condition in (
        ("uri", match.uri),
        ("scheme", match.scheme),
        ("method", match.method),
        ("authority", match.authority),
    ):
        if condition is not None and condition.regex is not None:
            text = condition.regex
            yield Expression((*path, field, "regex"), text)
    for field, conditions in (
        ("headers", match.headers),
        ("withoutHeaders", match.without_headers),
        ("queryParams", match.query_params),
    ):
        for name, condition in conditions.items():
            if condition.regex is not None:
                text = condition.regex
                yield Expression((*path, field, name, "regex"), text)
