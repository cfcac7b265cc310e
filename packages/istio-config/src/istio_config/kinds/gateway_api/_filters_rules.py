"""The rules of the Gateway API for filters: which may stand together, and what each needs.

Source: the Gateway API, v1.
"""

import re
from collections.abc import Iterator, Sequence

from istio_config.kinds.checks import has_control_characters
from istio_config.kinds.gateway_api._filters import (
    Cors,
    FilterType,
    GrpcFilter,
    HttpFilter,
    Mirror,
    PathModifier,
    PathModifierType,
    Redirect,
    UrlRewrite,
)
from istio_config.kinds.gateway_api._headers import header_filter_mistakes
from istio_config.kinds.gateway_api._names import wrong_header_name, wrong_hostname
from istio_config.kinds.gateway_api._references import backend_mistakes
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

MOST_FILTERS = 16
REDIRECT_CODES = (301, 302, 303, 307, 308)
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH")
NOT_SUPPORTED = "is not supported here; remove it"
_FIELDS = {
    FilterType.REQUEST_HEADER_MODIFIER: "request_header_modifier",
    FilterType.RESPONSE_HEADER_MODIFIER: "response_header_modifier",
    FilterType.REQUEST_MIRROR: "request_mirror",
    FilterType.REQUEST_REDIRECT: "request_redirect",
    FilterType.URL_REWRITE: "url_rewrite",
    FilterType.CORS: "cors",
    FilterType.EXTERNAL_AUTH: "external_auth",
    FilterType.EXTENSION_REF: "extension_ref",
}
_OF_GRPC = (
    FilterType.REQUEST_HEADER_MODIFIER,
    FilterType.RESPONSE_HEADER_MODIFIER,
    FilterType.REQUEST_MIRROR,
    FilterType.EXTENSION_REF,
)
BACKEND_FILTERS = (FilterType.REQUEST_HEADER_MODIFIER, FilterType.RESPONSE_HEADER_MODIFIER)
"""The filters that one backend can have, as in Istio; others belong to the whole rule."""
_REPEATABLE = (FilterType.REQUEST_MIRROR, FilterType.EXTENSION_REF)
_ORIGIN = re.compile(r"\*|[a-zA-Z][a-zA-Z0-9+.-]*://(\*|(\*\.)?[A-Za-z0-9.-]+)(:[0-9]{1,5})?")


def filter_mistakes(
    filters: Sequence[HttpFilter | GrpcFilter],
    path: FieldPath,
    *,
    prefix: bool = False,
) -> Iterator[Finding]:
    """Yield what is wrong with the filters of a rule or of a backend.

    prefix: whether the only match of the rule is by a prefix, which a filter can replace then.
    """
    if len(filters) > MOST_FILTERS:
        yield path, f"has {len(filters)} entries; {MOST_FILTERS} are allowed"
    seen: set[FilterType] = set()
    for index, each in enumerate(filters):
        here = (*path, index)
        if each.type in seen and each.type not in _REPEATABLE:
            yield here, f"a second {each.type.value}; a rule has one: put the two together"
        seen.add(each.type)
        if isinstance(each, GrpcFilter) and each.type not in _OF_GRPC:
            yield (*here, "type"), f"{each.type.value} is not a filter of a GRPCRoute"
        else:
            yield from _filter_mistakes(each, here, prefix=prefix)
    if {FilterType.REQUEST_REDIRECT, FilterType.URL_REWRITE} <= seen:
        yield path, "RequestRedirect and URLRewrite exclude each other: keep one"


def _filter_mistakes(
    each: HttpFilter | GrpcFilter, path: FieldPath, *, prefix: bool
) -> Iterator[Finding]:
    for kind, field in _FIELDS.items():
        value = getattr(each, field, None)
        if value is not None and kind is not each.type:
            yield (
                (*path, _camel(field)),
                f"can't stand in a filter of type {each.type.value}; it is for {kind.value}",
            )
        elif value is None and kind is each.type:
            yield path, f"a filter of type {kind.value} needs the field {_camel(field)}"
    if each.type in (FilterType.EXTENSION_REF, FilterType.EXTERNAL_AUTH):
        yield (*path, "type"), f"{each.type.value} {NOT_SUPPORTED}"
    if each.request_header_modifier is not None:
        yield from header_filter_mistakes(
            each.request_header_modifier, (*path, "requestHeaderModifier")
        )
    if each.response_header_modifier is not None:
        yield from header_filter_mistakes(
            each.response_header_modifier, (*path, "responseHeaderModifier")
        )
    if each.request_mirror is not None:
        yield from _mirror_mistakes(each.request_mirror, (*path, "requestMirror"))
    if isinstance(each, HttpFilter):
        if each.request_redirect is not None:
            yield from _redirect_mistakes(
                each.request_redirect, (*path, "requestRedirect"), prefix=prefix
            )
        if each.url_rewrite is not None:
            yield from _url_mistakes(each.url_rewrite, (*path, "urlRewrite"), prefix=prefix)
        if each.cors is not None:
            yield from _cors_mistakes(each.cors, (*path, "cors"))


def _camel(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(each.capitalize() for each in others)


def _mirror_mistakes(mirror: Mirror, path: FieldPath) -> Iterator[Finding]:
    yield from backend_mistakes(mirror.backend_ref, (*path, "backendRef"))
    if mirror.percent is not None and mirror.fraction is not None:
        yield path, "percent and fraction exclude each other: keep one"
    if mirror.fraction is not None and mirror.fraction.numerator > mirror.fraction.denominator:
        yield (
            (*path, "fraction"),
            (
                f"the numerator {mirror.fraction.numerator} is greater than the denominator "
                f"{mirror.fraction.denominator}"
            ),
        )


def _redirect_mistakes(redirect: Redirect, path: FieldPath, *, prefix: bool) -> Iterator[Finding]:
    if redirect.scheme is not None and redirect.scheme not in ("http", "https"):
        yield (*path, "scheme"), f'expected http or https, found "{redirect.scheme}"'
    if redirect.status_code not in REDIRECT_CODES:
        codes = ", ".join(map(str, REDIRECT_CODES))
        yield (*path, "statusCode"), f"expected one of {codes}, found {redirect.status_code}"
    yield from _url_mistakes(redirect, path, prefix=prefix)


def _url_mistakes(
    change: Redirect | UrlRewrite, path: FieldPath, *, prefix: bool
) -> Iterator[Finding]:
    if change.hostname is not None and (
        text := wrong_hostname(change.hostname, allow_wildcard=False)
    ):
        yield (*path, "hostname"), text
    if change.path is not None:
        yield from _path_mistakes(change.path, (*path, "path"), prefix=prefix)


def _path_mistakes(here: PathModifier, path: FieldPath, *, prefix: bool) -> Iterator[Finding]:
    by_prefix = here.type is PathModifierType.REPLACE_PREFIX_MATCH
    wanted, other = (
        (here.replace_prefix_match, here.replace_full_path)
        if by_prefix
        else (here.replace_full_path, here.replace_prefix_match)
    )
    names = ("replacePrefixMatch", "replaceFullPath")
    wanted_name, other_name = names if by_prefix else names[::-1]
    if wanted is None:
        yield path, f"the type {here.type.value} needs the field {wanted_name}"
    elif len(wanted) > 1024:
        yield (*path, wanted_name), "is longer than 1024 characters"
    elif has_control_characters(wanted):
        yield (*path, wanted_name), "must be one line of text"
    if other is not None:
        yield (*path, other_name), f"can't stand beside the type {here.type.value}"
    if by_prefix and not prefix:
        yield (
            (*path, "type"),
            (
                "ReplacePrefixMatch needs exactly one match in the rule, with a path of type "
                "PathPrefix"
            ),
        )


def _cors_mistakes(cors: Cors, path: FieldPath) -> Iterator[Finding]:
    for index, origin in enumerate(cors.allow_origins):
        if not _ORIGIN.fullmatch(origin):
            yield (
                (*path, "allowOrigins", index),
                (
                    f'"{origin}" is not an origin such as https://shop.example.com or '
                    "https://*.example.com"
                ),
            )
    for index, method in enumerate(cors.allow_methods):
        if method not in (*METHODS, "*"):
            yield (
                (*path, "allowMethods", index),
                f'expected one of {", ".join(METHODS)} or *, found "{method}"',
            )
    for field, values in (
        ("allowOrigins", cors.allow_origins),
        ("allowMethods", cors.allow_methods),
        ("allowHeaders", cors.allow_headers),
    ):
        if "*" in values and len(values) > 1:
            yield (*path, field), '"*" stands alone: it is all of them'
    for field, values in (
        ("allowHeaders", cors.allow_headers),
        ("exposeHeaders", cors.expose_headers),
    ):
        for index, name in enumerate(values):
            if text := wrong_header_name(name):
                yield (*path, field, index), text


def filter_warnings(
    filters: Sequence[HttpFilter | GrpcFilter], path: FieldPath
) -> Iterator[Finding]:
    """Yield the changes of the header Host that have no effect: all but setting a request's."""
    for index, each in enumerate(filters):
        request, response = each.request_header_modifier, each.response_header_modifier
        lists = [("requestHeaderModifier", "remove", request.remove)] if request else []
        if response is not None:
            for field, headers in (("set", response.set), ("add", response.add)):
                lists.append(("responseHeaderModifier", field, tuple(one.name for one in headers)))
            lists.append(("responseHeaderModifier", "remove", response.remove))
        for modifier, field, names in lists:
            for number, name in enumerate(names):
                if name.lower() == "host":
                    here = (*path, index, modifier, field, number)
                    yield here, "has no effect: a request has a Host, and an answer has none"
