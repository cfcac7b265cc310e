"""Settings of routes for the filters before the router: faults to inject, CORS policies."""

from envoy.extensions.filters.common.fault.v3 import fault_pb2 as common_fault_pb2
from envoy.extensions.filters.http.cors.v3 import cors_pb2
from envoy.extensions.filters.http.fault.v3 import fault_pb2

from envoy_config.generate._messages import (
    base_pb2,
    duration,
    packed,
    percent_pb2,
    route_components_pb2,
    wrappers_pb2,
)
from envoy_config.generate.routes._matches import string_matcher
from istio_config.kinds.virtual_service import (
    GRPC_STATUSES,
    Abort,
    CorsPolicy,
    Delay,
    FaultInjection,
    HttpRoute,
    StringMatch,
    UnmatchedPreflights,
)

FAULT, CORS = "envoy.filters.http.fault", "envoy.filters.http.cors"


def fraction(percentage: float) -> percent_pb2.FractionalPercent:
    """Make a percentage, in steps of 0.0001."""
    return percent_pb2.FractionalPercent(
        numerator=round(percentage * 10_000),
        denominator=percent_pb2.FractionalPercent.DenominatorType.MILLION,
    )


def set_filters(message: route_components_pb2.Route, route: HttpRoute) -> None:
    """Add to a route what filters are to do with its requests."""
    fault = _fault(route.fault) if route.fault is not None else None
    if fault is not None:
        message.typed_per_filter_config[FAULT].CopyFrom(packed(fault))
    if route.cors_policy is not None:
        message.typed_per_filter_config[CORS].CopyFrom(packed(_cors(route.cors_policy)))


def _fault(fault: FaultInjection) -> fault_pb2.HTTPFault | None:
    message = fault_pb2.HTTPFault()
    if fault.delay is not None and fault.delay.fixed_delay:
        message.delay.CopyFrom(_delay(fault.delay))
    if fault.abort is not None and (abort := _abort(fault.abort)) is not None:
        message.abort.CopyFrom(abort)
    return message if message.HasField("delay") or message.HasField("abort") else None


def _delay(delay: Delay) -> common_fault_pb2.FaultDelay:
    percentage = delay.percentage.value if delay.percentage is not None else delay.percent
    return common_fault_pb2.FaultDelay(
        fixed_delay=duration(delay.fixed_delay or 0), percentage=fraction(percentage)
    )


def _abort(abort: Abort) -> fault_pb2.FaultAbort | None:
    message = fault_pb2.FaultAbort()
    if abort.http_status is not None:
        message.http_status = abort.http_status
    elif abort.grpc_status in GRPC_STATUSES:
        message.grpc_status = GRPC_STATUSES.index(abort.grpc_status)
    else:
        return None
    if abort.percentage is not None:
        message.percentage.CopyFrom(fraction(abort.percentage.value))
    return message


def _cors(policy: CorsPolicy) -> cors_pb2.CorsPolicy:
    origins = policy.allow_origins or tuple(StringMatch(exact=each) for each in policy.allow_origin)
    message = cors_pb2.CorsPolicy(
        allow_origin_string_match=[string_matcher(each) for each in origins],
        allow_methods=",".join(policy.allow_methods),
        allow_headers=",".join(policy.allow_headers),
        expose_headers=",".join(policy.expose_headers),
        filter_enabled=base_pb2.RuntimeFractionalPercent(
            default_value=percent_pb2.FractionalPercent(numerator=100)
        ),
        forward_not_matching_preflights=wrappers_pb2.BoolValue(
            value=policy.unmatched_preflights is not UnmatchedPreflights.IGNORE
        ),
    )
    if policy.max_age is not None:
        message.max_age = str(int(policy.max_age))
    if policy.allow_credentials is not None:
        message.allow_credentials.CopyFrom(wrappers_pb2.BoolValue(value=policy.allow_credentials))
    return message
