"""Envoy's matches of the matches of HTTP routes."""

from collections.abc import Iterator, Mapping

from envoy.type.matcher.v3 import metadata_pb2, regex_pb2, value_pb2

from envoy_config.generate._messages import route_components_pb2, string_pb2, wrappers_pb2
from envoy_config.generate.policies._tokens import PAYLOAD, TOKEN_FILTER
from istio_config.kinds.virtual_service import HttpMatch, StringMatch, claim_path, names_claim

_ALL_PATHS = (".*", "/.*")
_ANY_VALUE = (".*", "*")

RouteMatch = route_components_pb2.RouteMatch


def route_match(
    match: HttpMatch, *, whole_elements: bool = False
) -> route_components_pb2.RouteMatch:
    """Make the match of a route.

    whole_elements: `/a` is the prefix of `/a/b` and not of `/ab`.
    """
    message = _path(match)
    if whole_elements and message.prefix and not message.prefix.endswith("/"):
        message.path_separated_prefix = message.prefix
    headers = {name: each for name, each in match.headers.items() if not names_claim(name)}
    message.headers.extend(_header(name, each) for name, each in sorted(headers.items()))
    without = {n: each for n, each in match.without_headers.items() if not names_claim(n)}
    message.headers.extend(_without(name, each) for name, each in sorted(without.items()))
    for name, condition in (
        (":method", match.method),
        (":authority", match.authority),
        (":scheme", match.scheme),
    ):
        if condition is not None:
            message.headers.append(_header(name, condition))
    message.query_parameters.extend(
        _parameter(name, each) for name, each in sorted(match.query_params.items())
    )
    message.dynamic_metadata.extend(_claims(match.headers, inverted=False))
    message.dynamic_metadata.extend(_claims(match.without_headers, inverted=True))
    return message


def everything() -> route_components_pb2.RouteMatch:
    """Make the match of all requests."""
    return RouteMatch(prefix="/")


def is_catch_all(match: route_components_pb2.RouteMatch) -> bool:
    """Return whether a match is met by all requests, so that no later route is reached."""
    return (match.prefix == "/" or match.safe_regex.regex in _ALL_PATHS) and not (
        match.headers or match.query_parameters or match.dynamic_metadata
    )


def string_matcher(condition: StringMatch) -> string_pb2.StringMatcher:
    """Make a condition on a text."""
    if condition.exact is not None:
        return string_pb2.StringMatcher(exact=condition.exact)
    if condition.prefix is not None:
        return string_pb2.StringMatcher(prefix=condition.prefix)
    return string_pb2.StringMatcher(safe_regex=regex(condition.regex or ".*"))


def regex(text: str) -> regex_pb2.RegexMatcher:
    """Make a regular expression, which must match a whole text."""
    return regex_pb2.RegexMatcher(regex=text)


def _path(match: HttpMatch) -> route_components_pb2.RouteMatch:
    uri = match.uri
    if uri is None or uri == StringMatch():
        return everything()
    if uri.regex is not None:
        return RouteMatch(safe_regex=regex(uri.regex))
    message = (
        RouteMatch(path=uri.exact) if uri.exact is not None else RouteMatch(prefix=uri.prefix or "")
    )
    if match.ignore_uri_case:
        message.case_sensitive.CopyFrom(wrappers_pb2.BoolValue(value=False))
    return message


def _is_presence(condition: StringMatch) -> bool:
    return condition == StringMatch() or condition.regex in _ANY_VALUE


def _header(name: str, condition: StringMatch) -> route_components_pb2.HeaderMatcher:
    if _is_presence(condition):
        return route_components_pb2.HeaderMatcher(name=name, present_match=True)
    return route_components_pb2.HeaderMatcher(name=name, string_match=string_matcher(condition))


def _without(name: str, condition: StringMatch) -> route_components_pb2.HeaderMatcher:
    matcher = _header(name, condition)
    matcher.invert_match = True
    # A header that is not there has no such value, either.
    matcher.treat_missing_header_as_empty = matcher.HasField("string_match")
    return matcher


def _parameter(name: str, condition: StringMatch) -> route_components_pb2.QueryParameterMatcher:
    if _is_presence(condition):
        return route_components_pb2.QueryParameterMatcher(name=name, present_match=True)
    return route_components_pb2.QueryParameterMatcher(
        name=name, string_match=string_matcher(condition)
    )


def _claims(
    headers: Mapping[str, StringMatch], *, inverted: bool
) -> Iterator[metadata_pb2.MetadataMatcher]:
    for name, condition in sorted(headers.items()):
        path = claim_path(name) if names_claim(name) else None
        if path is not None:
            yield metadata_pb2.MetadataMatcher(
                filter=TOKEN_FILTER,
                path=[
                    metadata_pb2.MetadataMatcher.PathSegment(key=key) for key in (PAYLOAD, *path)
                ],
                value=_claim_value(condition),
                invert=inverted,
            )


def _claim_value(condition: StringMatch) -> value_pb2.ValueMatcher:
    """Make the condition on a claim, which is a text or a list of texts."""
    if _is_presence(condition):
        return value_pb2.ValueMatcher(present_match=True)
    text = value_pb2.ValueMatcher(string_match=string_matcher(condition))
    listed = value_pb2.ValueMatcher(list_match=value_pb2.ListMatcher(one_of=text))
    return value_pb2.ValueMatcher(or_match=value_pb2.OrMatcher(value_matchers=[text, listed]))
