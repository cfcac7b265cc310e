"""Outlier detection of clusters: which endpoints are left out for a while.

Which answers count as errors is among the HTTP options of a cluster: `_http_options` has it from
`error_matcher`.
"""

from envoy_config.generate._messages import (
    cluster_pb2,
    duration,
    matcher_pb2,
    outlier_detection_pb2,
    route_components_pb2,
    string_pb2,
    wrappers_pb2,
)
from envoy_config.generate.clusters._cluster import number
from istio_config.kinds.destination_rule import OutlierDetection

_ALWAYS, _NEVER = 100, 0


def detect_outliers(cluster: cluster_pb2.Cluster, outlier: OutlierDetection) -> None:
    """Have a cluster leave out endpoints that fail."""
    detection = outlier_detection_pb2.OutlierDetection(
        enforcing_success_rate=number(_NEVER),
        # Before 1.28 Envoy always ejected a first host, whatever max_ejection_percent was (runtime
        # guard check_mep_on_first_eject). Since then its default of 10 % of fewer than ten hosts
        # is none, unless this field is set.
        always_eject_one_host=wrappers_pb2.BoolValue(value=True),
    )
    if (errors := outlier.consecutive_5xx_errors) is not None:
        detection.enforcing_consecutive_5xx.CopyFrom(number(_ALWAYS if errors else _NEVER))
        if errors:
            detection.consecutive_5xx.CopyFrom(number(errors))
    if (errors := outlier.consecutive_gateway_errors) is not None:
        detection.enforcing_consecutive_gateway_failure.CopyFrom(
            number(_ALWAYS if errors else _NEVER)
        )
        if errors:
            detection.consecutive_gateway_failure.CopyFrom(number(errors))
    if outlier.interval is not None:
        detection.interval.CopyFrom(duration(outlier.interval))
    if outlier.base_ejection_time is not None:
        detection.base_ejection_time.CopyFrom(duration(outlier.base_ejection_time))
        if outlier.base_ejection_time > 300:
            # Envoy's longest ejection is 300 s unless set otherwise, and never below the base.
            detection.max_ejection_time.CopyFrom(duration(outlier.base_ejection_time))
    if outlier.max_ejection_percent:
        detection.max_ejection_percent.CopyFrom(number(outlier.max_ejection_percent))
    if outlier.split_external_local_origin_errors:
        detection.split_external_local_origin_errors = True
        detection.enforcing_local_origin_success_rate.CopyFrom(number(_NEVER))
        if outlier.consecutive_local_origin_failures:
            failures = outlier.consecutive_local_origin_failures
            detection.consecutive_local_origin_failure.CopyFrom(number(failures))
            detection.enforcing_consecutive_local_origin_failure.CopyFrom(number(_ALWAYS))
    cluster.outlier_detection.CopyFrom(detection)
    cluster.common_lb_config.healthy_panic_threshold.value = outlier.min_health_percent


def error_matcher(outlier: OutlierDetection) -> matcher_pb2.MatchPredicate | None:
    """Make the predicate of responses that count as errors; None: Envoy's own, 5xx."""
    codes = outlier.outlier_detection_http_error_codes
    if not codes:
        return None
    predicates = [_status(each) for each in dict.fromkeys(codes)]
    if len(predicates) == 1:
        return predicates[0]
    return matcher_pb2.MatchPredicate(
        or_match=matcher_pb2.MatchPredicate.MatchSet(rules=predicates)
    )


def _status(code: int) -> matcher_pb2.MatchPredicate:
    return matcher_pb2.MatchPredicate(
        http_response_headers_match=matcher_pb2.HttpHeadersMatch(
            headers=[
                route_components_pb2.HeaderMatcher(
                    name=":status", string_match=string_pb2.StringMatcher(exact=str(code))
                )
            ]
        )
    )
