"""Outlier detection: when a client ejects an endpoint that fails, and for how long.

Source: Istio's API, networking/v1, and its validation.
"""

from collections.abc import Iterator
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.checks import duration_mistakes
from istio_config.kinds.fields import SpecFields
from mesh_configfile import Duration
from mesh_configfile.shapes import Finding

_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
_Percent: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=100)]


class OutlierDetection(SpecFields, frozen=True):
    """How many errors eject an endpoint, and for how long."""

    consecutive_errors: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    """Deprecated, without effect."""
    split_external_local_origin_errors: bool = False
    consecutive_local_origin_failures: _Number | None = None
    consecutive_gateway_errors: _Number | None = None
    consecutive_5xx_errors: _Number | None = msgspec.field(
        name="consecutive5xxErrors", default=None
    )
    interval: Duration | None = None
    base_ejection_time: Duration | None = None
    max_ejection_percent: _Percent = 0
    min_health_percent: _Percent = 0
    outlier_detection_http_error_codes: tuple[
        Annotated[int, msgspec.Meta(ge=100, le=599)], ...
    ] = ()
    """The status codes that count as errors instead of 5xx."""


def outlier_detection_mistakes(outlier: OutlierDetection) -> Iterator[Finding]:
    """Yield what is wrong with outlier detection; paths start below it."""
    yield from duration_mistakes(("interval",), outlier.interval)
    yield from duration_mistakes(("baseEjectionTime",), outlier.base_ejection_time)
    if outlier.consecutive_local_origin_failures and not outlier.split_external_local_origin_errors:
        yield (
            ("consecutiveLocalOriginFailures",),
            "needs splitExternalLocalOriginErrors: true beside it",
        )


def outlier_detection_warnings(outlier: OutlierDetection) -> Iterator[Finding]:
    """Yield the settings of outlier detection that are not what they seem."""
    if outlier.consecutive_errors:
        yield (
            ("consecutiveErrors",),
            "is deprecated and has no effect; use consecutive5xxErrors or consecutiveGatewayErrors",
        )
