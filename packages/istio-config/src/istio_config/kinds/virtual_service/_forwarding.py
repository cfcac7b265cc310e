"""Rewrites and retries of requests that are forwarded.

Source: Istio's API, networking/v1.
"""

from collections.abc import Iterator

from istio_config.kinds._regular_expressions import regex_mistake, substitution_mistake
from istio_config.kinds.checks import control_character_mistakes, duration_mistakes
from istio_config.kinds.fields import SpecFields
from mesh_configfile import Duration, FieldPath
from mesh_configfile.shapes import Finding


class RegexRewrite(SpecFields, frozen=True):
    """A replacement of the path by a regular expression."""

    match: str = ""
    rewrite: str = ""


class HttpRewrite(SpecFields, frozen=True):
    """Changes of the path and the authority."""

    uri: str = ""
    authority: str = ""
    uri_regex_rewrite: RegexRewrite | None = None


class HttpRetry(SpecFields, frozen=True):
    """How often and when a request is tried again."""

    attempts: int = 0
    per_try_timeout: Duration | None = None
    retry_on: str = ""
    retry_remote_localities: bool | None = None
    retry_ignore_previous_hosts: bool | None = None
    backoff: Duration | None = None


RETRY_CONDITIONS = (
    "5xx",
    "gateway-error",
    "reset",
    "reset-before-request",
    "connect-failure",
    "retriable-4xx",
    "refused-stream",
    "retriable-status-codes",
    "retriable-headers",
    "envoy-ratelimited",
    "http3-post-connect-failure",
    "cancelled",
    "deadline-exceeded",
    "internal",
    "resource-exhausted",
    "unavailable",
)
"""Those that Envoy documents for `x-envoy-retry-on` and `x-envoy-retry-grpc-on`."""


def rewrite_mistakes(rewrite: HttpRewrite, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a rewrite."""
    by_regex = rewrite.uri_regex_rewrite
    if not (rewrite.uri or rewrite.authority or by_regex is not None):
        yield path, "changes nothing: give uri, authority or uriRegexRewrite"
    if rewrite.uri and by_regex is not None:
        yield (*path, "uriRegexRewrite"), "can't stand beside uri: keep one"
    if by_regex is not None:
        here = (*path, "uriRegexRewrite")
        if not by_regex.rewrite:
            yield (*here, "rewrite"), "is missing: give the replacement"
        if (wrong := regex_mistake(by_regex.match)) is not None:
            yield (*here, "match"), wrong
        elif (wrong := substitution_mistake(by_regex.match, by_regex.rewrite)) is not None:
            yield (*here, "rewrite"), wrong
        yield from control_character_mistakes((*here, "rewrite"), by_regex.rewrite)
    yield from control_character_mistakes((*path, "uri"), rewrite.uri)
    yield from control_character_mistakes((*path, "authority"), rewrite.authority)


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
        yield from duration_mistakes((*path, field), value)
    for word in retries.retry_on.split(",") if retries.retry_on else ():
        condition = word.strip()
        if condition not in RETRY_CONDITIONS and not _is_status(condition):
            known = ", ".join(RETRY_CONDITIONS)
            yield (
                (*path, "retryOn"),
                f'"{condition}" is no condition to retry on; known: an HTTP status, {known}',
            )


def retry_warnings(retries: HttpRetry, path: FieldPath) -> Iterator[Finding]:
    """Yield what Istio refuses in valid retries."""
    if any(word != word.strip() for word in retries.retry_on.split(",")):
        yield (*path, "retryOn"), "has blanks, for which Istio refuses the object"


def _is_status(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) == 3 and 100 <= int(text) <= 599
