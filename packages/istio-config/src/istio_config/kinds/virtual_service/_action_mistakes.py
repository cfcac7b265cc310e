"""The rules of redirects, direct responses, rewrites, retries, faults, mirrors and CORS."""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator

from istio_config.kinds._regular_expressions import regex_mistake, substitution_mistake
from istio_config.kinds.checks import (
    duration_mistake,
    has_control_characters,
    percent_mistake,
    several_given,
)
from istio_config.kinds.virtual_service._actions import (
    Abort,
    CorsPolicy,
    Delay,
    FaultInjection,
    HttpBody,
    HttpDirectResponse,
    HttpRedirect,
    HttpRetry,
    HttpRewrite,
)
from istio_config.kinds.virtual_service._destinations import Percent
from istio_config.kinds.virtual_service._header_mistakes import header_name_mistake
from istio_config.kinds.virtual_service._match_mistakes import string_match_mistakes
from istio_config.kinds.virtual_service._matches import HttpMatch
from istio_config.kinds.virtual_service._statuses import (
    GRPC_STATUSES,
    REDIRECT_CODES,
    RETRY_CONDITIONS,
    is_http_status,
)
from mesh_configfile import Duration, FieldPath
from mesh_configfile.shapes import Finding

_MOST_BYTES = 1024 * 1024
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "*")


def redirect_mistakes(
    redirect: HttpRedirect, matches: tuple[HttpMatch, ...], path: FieldPath
) -> Iterator[Finding]:
    """Yield what is wrong with the redirect of a route with these matches."""
    if not (
        redirect.uri
        or redirect.prefix_rewrite
        or redirect.authority
        or redirect.scheme
        or redirect.port is not None
        or redirect.derive_port is not None
    ):
        yield path, "leads nowhere: give uri, prefixRewrite, authority, port, derivePort or scheme"
    if redirect.uri and redirect.prefix_rewrite:
        yield (*path, "prefixRewrite"), "can't stand beside uri: keep one"
    if redirect.prefix_rewrite:
        for index, match in enumerate(matches):
            if match.uri is not None and match.uri.prefix is None:
                yield (
                    (*path, "prefixRewrite"),
                    f"needs a match by prefix, and match[{index}].uri is none",
                )
    if redirect.port is not None and redirect.derive_port is not None:
        yield (*path, "derivePort"), "can't stand beside port: keep one"
    if redirect.redirect_code and redirect.redirect_code not in REDIRECT_CODES:
        codes = ", ".join(map(str, REDIRECT_CODES))
        yield (*path, "redirectCode"), f"must be one of {codes}, found {redirect.redirect_code}"
    if redirect.scheme not in ("", "http", "https"):
        yield (*path, "scheme"), f'must be http or https, found "{redirect.scheme}"'
    for field, text in (
        ("uri", redirect.uri),
        ("prefixRewrite", redirect.prefix_rewrite),
        ("authority", redirect.authority),
    ):
        yield from _text_mistakes(text, (*path, field))


def response_mistakes(response: HttpDirectResponse, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a direct response."""
    if not is_http_status(response.status):
        yield (*path, "status"), f"must be from 200 to 599, found {response.status}"
    body = response.body
    if body is None:
        return
    if (body.string is None) == (body.bytes is None):
        yield (*path, "body"), "has string or bytes: give one of them"
    elif (size := body_size(body)) is None:
        yield (*path, "body", "bytes"), "is not base64"
    elif size > _MOST_BYTES:
        yield (*path, "body"), f"has {size} bytes, more than {_MOST_BYTES}"


def body_size(body: HttpBody) -> int | None:
    """Return how long a body is, in bytes; None if its base64 can't be read."""
    if body.bytes is None:
        return len((body.string or "").encode())
    try:
        return len(b64decode(body.bytes, validate=True))
    except (Base64Error, ValueError):
        return None


def rewrite_mistakes(rewrite: HttpRewrite, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a rewrite."""
    by_regex = rewrite.uri_regex_rewrite
    if not (rewrite.uri or rewrite.authority or by_regex is not None):
        yield path, "changes nothing: give uri, authority or uriRegexRewrite"
    if rewrite.uri and by_regex is not None:
        yield (*path, "uriRegexRewrite"), "can't stand beside uri: keep one"
    if by_regex is not None:
        place = (*path, "uriRegexRewrite")
        if not by_regex.rewrite:
            yield (*place, "rewrite"), "is missing: give the replacement"
        if (wrong := regex_mistake(by_regex.match)) is not None:
            yield (*place, "match"), wrong
        elif (wrong := substitution_mistake(by_regex.match, by_regex.rewrite)) is not None:
            yield (*place, "rewrite"), wrong
        yield from _text_mistakes(by_regex.rewrite, (*place, "rewrite"))
    yield from _text_mistakes(rewrite.uri, (*path, "uri"))
    yield from _text_mistakes(rewrite.authority, (*path, "authority"))


def retry_mistakes(retries: HttpRetry, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with retries."""
    if retries.attempts < 0:
        yield (*path, "attempts"), f"must be at least 0, found {retries.attempts}"
    if not retries.attempts:
        for field, given in (
            ("perTryTimeout", retries.per_try_timeout is not None),
            ("retryOn", bool(retries.retry_on)),
            ("retryRemoteLocalities", retries.retry_remote_localities is not None),
        ):
            if given:
                yield (*path, field), "has no meaning with attempts 0: nothing is tried again"
    for field, value in (("perTryTimeout", retries.per_try_timeout), ("backoff", retries.backoff)):
        yield from _duration_mistakes(value, (*path, field))
    for word in retries.retry_on.split(",") if retries.retry_on else ():
        condition = word.strip()
        if condition not in RETRY_CONDITIONS and not _is_status(condition):
            known = ", ".join(RETRY_CONDITIONS)
            yield (
                (*path, "retryOn"),
                f'"{condition}" is no condition to retry on; known: an HTTP status, {known}',
            )


def _is_status(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) == 3 and 100 <= int(text) <= 599


def fault_mistakes(fault: FaultInjection, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with faults."""
    if fault.delay is None and fault.abort is None:
        yield path, "makes no fault: give delay or abort"
    if fault.delay is not None:
        yield from _delay_mistakes(fault.delay, (*path, "delay"))
    if fault.abort is not None:
        yield from _abort_mistakes(fault.abort, (*path, "abort"))


def _delay_mistakes(delay: Delay, path: FieldPath) -> Iterator[Finding]:
    if delay.exponential_delay is not None:
        yield (*path, "exponentialDelay"), "is not supported, nor by Istio: use fixedDelay"
    elif delay.fixed_delay is None:
        yield (*path, "fixedDelay"), "is missing"
    yield from _duration_mistakes(delay.fixed_delay, (*path, "fixedDelay"))
    if not 0 <= delay.percent <= 100:
        yield (*path, "percent"), f"must be from 0 to 100, found {delay.percent}"
    yield from percentage_mistakes(delay.percentage, (*path, "percentage"))


def _abort_mistakes(abort: Abort, path: FieldPath) -> Iterator[Finding]:
    yield from several_given(
        path,
        {
            "httpStatus": abort.http_status,
            "grpcStatus": abort.grpc_status,
            "http2Error": abort.http2_error,
        },
    )
    if abort.http2_error is not None:
        yield (*path, "http2Error"), "is not supported, nor by Istio: use httpStatus or grpcStatus"
    if abort.http_status is not None and not is_http_status(abort.http_status):
        yield (*path, "httpStatus"), f"must be from 200 to 599, found {abort.http_status}"
    if abort.grpc_status is not None and abort.grpc_status not in GRPC_STATUSES:
        yield (
            (*path, "grpcStatus"),
            f'"{abort.grpc_status}" is no gRPC status; known: {", ".join(GRPC_STATUSES)}',
        )
    yield from percentage_mistakes(abort.percentage, (*path, "percentage"))


def cors_mistakes(policy: CorsPolicy, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a CORS policy."""
    for index, origin in enumerate(policy.allow_origins):
        place = (*path, "allowOrigins", index)
        if origin.exact is None and origin.prefix is None and origin.regex is None:
            yield place, "is empty: give exact, prefix or regex"
        yield from string_match_mistakes(origin, place)
    for index, method in enumerate(policy.allow_methods):
        if method not in _METHODS:
            yield (
                (*path, "allowMethods", index),
                f'"{method}" is not a method; known: {", ".join(_METHODS)}',
            )
    for field, names in (
        ("allowHeaders", policy.allow_headers),
        ("exposeHeaders", policy.expose_headers),
    ):
        for index, name in enumerate(names):
            if (wrong := header_name_mistake(name)) is not None:
                yield (*path, field, index), wrong
    if policy.max_age is not None and policy.max_age % 1:
        yield (*path, "maxAge"), "must be of whole seconds"


def percentage_mistakes(percentage: Percent | None, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a percentage."""
    if percentage is not None and (wrong := percent_mistake(percentage.value)) is not None:
        yield (*path, "value"), wrong


def _duration_mistakes(value: Duration | None, path: FieldPath) -> Iterator[Finding]:
    if value is not None and (wrong := duration_mistake(value)) is not None:
        yield path, wrong


def _text_mistakes(text: str, path: FieldPath) -> Iterator[Finding]:
    if has_control_characters(text):
        yield path, "must not have control characters"
