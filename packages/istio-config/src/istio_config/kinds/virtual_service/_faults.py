"""Faults that are injected on purpose: delays and errors.

Source: Istio's API, networking/v1.
"""

from collections.abc import Iterator

from istio_config.kinds.checks import duration_mistakes, several_given_mistakes
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.virtual_service._answers import is_http_status
from istio_config.kinds.virtual_service._destinations import Percent, percentage_mistakes
from mesh_configfile import Duration, FieldPath
from mesh_configfile.shapes import Finding


class Delay(SpecFields, frozen=True):
    """A delay before requests are forwarded."""

    percent: int = 0
    """Deprecated for `percentage`."""
    percentage: Percent | None = None
    fixed_delay: Duration | None = None
    exponential_delay: Duration | None = None


class Abort(SpecFields, frozen=True):
    """Requests that are answered with an error."""

    http_status: int | None = None
    grpc_status: str | None = None
    http2_error: str | None = None
    percentage: Percent | None = None


class FaultInjection(SpecFields, frozen=True):
    """Faults that are injected on purpose."""

    delay: Delay | None = None
    abort: Abort | None = None


GRPC_STATUSES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""The names of gRPC's status codes; each is at the index that is its number."""


def fault_mistakes(fault: FaultInjection, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a delay, an abort or both."""
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
    yield from duration_mistakes((*path, "fixedDelay"), delay.fixed_delay)
    if not 0 <= delay.percent <= 100:
        yield (*path, "percent"), f"must be from 0 to 100, found {delay.percent}"
    yield from percentage_mistakes(delay.percentage, (*path, "percentage"))


def _abort_mistakes(abort: Abort, path: FieldPath) -> Iterator[Finding]:
    yield from several_given_mistakes(
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


def fault_warnings(fault: FaultInjection, path: FieldPath) -> Iterator[Finding]:
    """Yield the faults that never happen, and deprecated fields of others."""
    if fault.abort is not None:
        if fault.abort.http_status is None and fault.abort.grpc_status is None:
            yield (*path, "abort"), "aborts nothing: give httpStatus or grpcStatus"
        elif fault.abort.percentage is None:
            yield (*path, "abort"), "never happens: give a percentage"
    if fault.delay is not None and fault.delay.percentage is None:
        if fault.delay.percent:
            yield (*path, "delay", "percent"), "is deprecated: use percentage"
        else:
            yield (*path, "delay"), "never happens: give a percentage"
