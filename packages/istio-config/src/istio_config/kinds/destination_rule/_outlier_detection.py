"""Outlier detection: when a client leaves out an endpoint that fails, and for how long."""

from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.fields import SpecFields
from mesh_configfile import Duration

_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
_Percent: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=100)]


class OutlierDetection(SpecFields, frozen=True):
    """How many errors of an endpoint are too many."""

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
