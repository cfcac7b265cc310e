"""Merges a match of a root VirtualService with one of its delegate.

The merged match is met by the requests that meet both. Where that can't be said in one match, as
with two regular expressions, they conflict, as they do in Istio.
"""

from collections.abc import Callable, Mapping

from istio_config.kinds.virtual_service import HttpMatch, StringMatch

_ANY = StringMatch()


def merged_match(root: HttpMatch, delegate: HttpMatch) -> HttpMatch | None:
    """Return the match of the requests that meet both; None if they conflict."""
    try:
        return _merged(root, delegate)
    except _ConflictError:
        return None


class _ConflictError(Exception):
    """The two matches have conditions that can't both be in one."""


def _merged(root: HttpMatch, delegate: HttpMatch) -> HttpMatch:
    _expect(root.ignore_uri_case == delegate.ignore_uri_case)
    _expect(root.port is None or delegate.port in (None, root.port))
    _expect(root.source_namespace in ("", delegate.source_namespace))
    _expect(not root.gateways or set(delegate.gateways) <= set(root.gateways))
    labels = {**root.source_labels, **delegate.source_labels}
    _expect(root.source_labels.items() <= labels.items())
    return HttpMatch(
        name=joined_names(root.name, delegate.name),
        uri=_both(root.uri, delegate.uri),
        scheme=_both(root.scheme, delegate.scheme),
        method=_both(root.method, delegate.method),
        authority=_both(root.authority, delegate.authority),
        headers=_united(root.headers, delegate.headers, _narrower),
        without_headers=_united(root.without_headers, delegate.without_headers, _wider),
        query_params=_united(root.query_params, delegate.query_params, _narrower),
        ignore_uri_case=root.ignore_uri_case,
        port=delegate.port or root.port,
        source_labels=labels,
        source_namespace=delegate.source_namespace,
        gateways=delegate.gateways or root.gateways,
        stat_prefix=delegate.stat_prefix or root.stat_prefix,
    )


def joined_names(root: str, delegate: str) -> str:
    """Return the name of a match merged from two."""
    return "-".join(filter(None, (root, delegate)))


def _expect(condition: bool) -> None:  # noqa: FBT001 - reads as a sentence
    if not condition:
        raise _ConflictError


def _both(root: StringMatch | None, delegate: StringMatch | None) -> StringMatch | None:
    if root is None or delegate is None:
        return delegate if root is None else root
    return _narrower(root, delegate)


def _united(
    root: Mapping[str, StringMatch],
    delegate: Mapping[str, StringMatch],
    merge: Callable[[StringMatch, StringMatch], StringMatch],
) -> dict[str, StringMatch]:
    found = {**root, **delegate}
    for name in root.keys() & delegate.keys():
        found[name] = merge(root[name], delegate[name])
    return found


def _narrower(root: StringMatch, delegate: StringMatch) -> StringMatch:
    """Return the condition that holds when both do."""
    if delegate == _ANY:
        return root
    if root != _ANY:
        _expect(_within(delegate, root))
    return delegate


def _wider(root: StringMatch, delegate: StringMatch) -> StringMatch:
    """Return the condition that holds when one of both does, for what must not hold."""
    if _is_presence(root) or _is_presence(delegate):
        return _ANY
    _expect(_within(delegate, root))
    return root


def _is_presence(condition: StringMatch) -> bool:
    return condition == _ANY or condition.regex == "*"


def _within(inner: StringMatch, outer: StringMatch) -> bool:
    """Return whether each text that meets `inner` meets `outer`; with regular expressions: no."""
    if inner.regex is not None or outer.regex is not None:
        return False
    if outer.exact is not None:
        return inner.exact == outer.exact
    text = inner.exact if inner.exact is not None else inner.prefix
    return text is not None and outer.prefix is not None and text.startswith(outer.prefix)
