"""RequestAuthentication: the tokens that some workloads validate, and their key sets (JWKS)."""

from istio_config.kinds.request_authentication._key_sets import KeySetError, check_key_set
from istio_config.kinds.request_authentication._kind import (
    MOST_PATIENCE_S,
    REQUEST_AUTHENTICATION,
    JwtRule,
    Presence,
    RequestAuthenticationSpec,
)

__all__ = [
    "JwtRule",
    "KeySetError",
    "MOST_PATIENCE_S",
    "Presence",
    "REQUEST_AUTHENTICATION",
    "RequestAuthenticationSpec",
    "check_key_set",
]
