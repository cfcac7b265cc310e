"""OAuth 2.0 token exchange (RFC 8693) for the applications beside a service-mesh agent.

`TokenExchange` makes an answer of a request, and is mounted on any HTTP server. An `Exchanger` gets
the tokens; `Rfc8693Exchanger` asks an authorization server.
"""

from mesh_token_exchange._answer import Answer
from mesh_token_exchange._errors import (
    ExchangeRefused,
    ExchangeUnavailable,
    InvalidConfig,
    TokenExchangeError,
)
from mesh_token_exchange._messages import (
    ACCESS_TOKEN,
    JWT,
    TOKEN_EXCHANGE,
    AccessToken,
    Exchanger,
    ExchangeRequest,
)
from mesh_token_exchange._rfc8693 import Rfc8693Config, Rfc8693Exchanger
from mesh_token_exchange._token_exchange import (
    STATUS_PATH,
    TOKEN_PATH,
    ExchangeLimits,
    TokenExchange,
)

__all__ = [
    # answering
    "STATUS_PATH",
    "TOKEN_PATH",
    "Answer",
    "ExchangeLimits",
    "TokenExchange",
    # getting tokens
    "AccessToken",
    "ExchangeRequest",
    "Exchanger",
    "Rfc8693Config",
    "Rfc8693Exchanger",
    # identifiers of RFC 8693
    "ACCESS_TOKEN",
    "JWT",
    "TOKEN_EXCHANGE",
    # errors
    "ExchangeRefused",
    "ExchangeUnavailable",
    "InvalidConfig",
    "TokenExchangeError",
]
