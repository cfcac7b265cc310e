"""The values of AuthorizationPolicies as Envoy's matchers.

A value is a text, `text*` for what begins with it, `*text` for what ends with it, or `*` for any.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from envoy.config.rbac.v3 import rbac_pb2
from envoy.type.matcher.v3 import metadata_pb2, regex_pb2, value_pb2

from envoy_config.generate._messages import (
    address_pb2,
    route_components_pb2,
    string_pb2,
    wrappers_pb2,
)

Principal = rbac_pb2.Principal
_Match = string_pb2.StringMatcher
_SPIFFE = "spiffe://"
ANY = "*"


def text(value: str, *, ignore_case: bool = False) -> string_pb2.StringMatcher:
    """Make the matcher of a value that is not empty; `*`: of any text that is not."""
    if value == ANY:
        return _regex(".+")
    if value.startswith("*"):
        return _Match(suffix=value[1:], ignore_case=ignore_case)
    if value.endswith("*"):
        return _Match(prefix=value[:-1], ignore_case=ignore_case)
    return _Match(exact=value, ignore_case=ignore_case)


def header(
    name: str, value: str, *, ignore_case: bool = False
) -> route_components_pb2.HeaderMatcher:
    """Make the matcher of a header; `*`: it is there."""
    if value == ANY:
        return route_components_pb2.HeaderMatcher(name=name, present_match=True)
    matcher = text(value, ignore_case=ignore_case)
    return route_components_pb2.HeaderMatcher(name=name, string_match=matcher)


def addresses(value: str) -> address_pb2.CidrRange:
    """Make the range of an address or a range."""
    address, slash, length = value.partition("/")
    bits = int(length) if slash else (128 if ":" in address else 32)
    return address_pb2.CidrRange(
        address_prefix=address, prefix_len=wrappers_pb2.UInt32Value(value=bits)
    )


def principals(value: str, trust_domains: Sequence[str]) -> Iterator[rbac_pb2.Principal]:
    """Yield the principals of a value: one for each name of the mesh's trust domain."""
    if value == ANY:
        yield _authenticated(_regex(".+"))
    elif value.startswith("*"):
        yield _authenticated(_regex(f"{_SPIFFE}.*{re.escape(value[1:])}"))
    else:
        for each in _renamed(value, trust_domains):
            yield _authenticated(text(_SPIFFE + each))


def namespace(value: str) -> rbac_pb2.Principal:
    """Make the principal of all of a namespace; an asterisk stands for any text."""
    return _authenticated(_regex(f".*/ns/{_with_asterisks(value, '.*')}/.*"))


def service_account(value: str, own_namespace: str) -> rbac_pb2.Principal:
    """Make the principal of a service account, `namespace/name` or a name of the own namespace."""
    space, _, name = value.rpartition("/")
    space, name = re.escape(space or own_namespace), re.escape(name)
    return _authenticated(_regex(f"{_SPIFFE}.+/ns/{space}/(.+/|)sa/{name}(/.+)?"))


def trust_domain(value: str, trust_domains: Sequence[str]) -> Iterator[rbac_pb2.Principal]:
    """Yield the principals of all of a trust domain; an asterisk stands for a part of its name."""
    if value == ANY:
        yield _authenticated(_regex(f"{_SPIFFE}[^/]+/.*"))
    elif "*" in value:
        yield _authenticated(_regex(f"{_SPIFFE}{_with_asterisks(value, '[^/]*')}/.*"))
    else:
        for each in _renamed(value, trust_domains):
            yield _authenticated(_Match(prefix=f"{_SPIFFE}{each}/"))


def request_principal(value: str) -> rbac_pb2.Principal:
    """Make the principal of a token, `issuer/subject`: each half may begin or end with `*`."""
    issuer, slash, subject = value.rpartition("/")
    if value == ANY:
        issuer, subject = ANY, ANY
    elif not slash:  # a beginning or an end of both together
        issuer, subject = (value, ANY) if value.endswith("*") else (ANY, value)
    each = (claim(("iss",), issuer), claim(("sub",), subject))
    return Principal(and_ids=Principal.Set(ids=[Principal(metadata=one) for one in each]))


def claim(path: Iterable[str], value: str) -> metadata_pb2.MetadataMatcher:
    """Make the matcher of a claim of a token, a text or a list of texts."""
    if value == ANY:
        found = value_pb2.ValueMatcher(present_match=True)
    else:
        one = value_pb2.ValueMatcher(string_match=text(value))
        listed = value_pb2.ValueMatcher(list_match=value_pb2.ListMatcher(one_of=one))
        either = value_pb2.OrMatcher(value_matchers=[one, listed])
        found = value_pb2.ValueMatcher(or_match=either)
    return metadata("envoy.filters.http.jwt_authn", ("payload", *path), found)


def filter_metadata(filter_name: str, key: str, value: str) -> metadata_pb2.MetadataMatcher:
    """Make the matcher of what another filter found; `[value]`: of an element of a list."""
    if value.startswith("[") and value.endswith("]") and len(value) > 2:
        one = value_pb2.ValueMatcher(string_match=text(value[1:-1]))
        found = value_pb2.ValueMatcher(list_match=value_pb2.ListMatcher(one_of=one))
    else:
        found = value_pb2.ValueMatcher(string_match=text(value))
    return metadata(filter_name, (key,), found)


def metadata(
    filter_name: str, path: Iterable[str], value: value_pb2.ValueMatcher
) -> metadata_pb2.MetadataMatcher:
    """Make the matcher of a value in a filter's metadata."""
    segments = [metadata_pb2.MetadataMatcher.PathSegment(key=key) for key in path]
    return metadata_pb2.MetadataMatcher(filter=filter_name, path=segments, value=value)


def _authenticated(name: string_pb2.StringMatcher) -> rbac_pb2.Principal:
    return Principal(authenticated=Principal.Authenticated(principal_name=name))


def _renamed(value: str, trust_domains: Sequence[str]) -> Iterable[str]:
    """Return a name with each of the mesh's trust domains, if it has one of them."""
    domain, slash, rest = value.partition("/")
    if domain not in trust_domains:
        return (value,)
    return tuple(f"{each}{slash}{rest}" for each in trust_domains)


def _with_asterisks(value: str, any_text: str) -> str:
    return any_text.join(map(re.escape, value.split("*")))


def _regex(expression: str) -> string_pb2.StringMatcher:
    return _Match(safe_regex=regex_pb2.RegexMatcher(regex=expression))
