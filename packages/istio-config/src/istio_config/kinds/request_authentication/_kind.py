"""The kind RequestAuthentication."""

from istio_config.kinds.kind import Kind
from istio_config.kinds.request_authentication._mistakes import mistakes, warnings
from istio_config.kinds.request_authentication._spec import RequestAuthenticationSpec

REQUEST_AUTHENTICATION = Kind(
    name="RequestAuthentication",
    group="security.istio.io",
    versions=("v1", "v1beta1"),
    spec=RequestAuthenticationSpec,
    validate=mistakes,
    warn=warnings,
)
"""The tokens (JWT) that some workloads look at."""
