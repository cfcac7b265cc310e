"""The errors of token exchange, one class for each party that can act on them."""


class TokenExchangeError(Exception):
    """The root of this package's errors."""


class InvalidConfig(TokenExchangeError):
    """A setting that can't be right; the message names it and says what would be right."""


class InvalidRequest(TokenExchangeError):
    """The application's request is at fault; the message has no value of a parameter."""


class ExchangeRefused(TokenExchangeError):
    """The authorization server refuses this exchange, and would refuse it again.

    code: an error code of RFC 6749 section 5.2 or RFC 8693 section 2.2.2, as `invalid_target`.
    description: what the application is sent; it holds no secret.
    """

    def __init__(self, code: str, description: str) -> None:
        super().__init__(f"{code}: {description}" if description else code)
        self.code = code
        self.description = description


class ExchangeUnavailable(TokenExchangeError):
    """No token could be got, for a reason that is not the application's.

    reason: for the log and for the application; it holds no secret.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
