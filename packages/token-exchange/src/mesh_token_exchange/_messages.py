"""The request for a token, the token, and the role that makes the one into the other."""

from dataclasses import dataclass, field
from typing import Final, Protocol

TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a type
"""The grant type of RFC 8693 section 2.1."""
JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type

MAX_LIFETIME_S: Final = 10 * 366 * 86_400
"""The longest lifetime that a token is given; ten years, so that its end is a date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRequest:
    """The parameters of a token exchange request (RFC 8693 section 2.1); empty if not given.

    resource, audience: a request may name several of each.
    """

    subject_token: str = field(repr=False)
    subject_token_type: str
    resource: tuple[str, ...] = ()
    audience: tuple[str, ...] = ()
    scope: str = ""
    requested_token_type: str = ""
    actor_token: str = field(default="", repr=False)
    actor_token_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token that was issued (RFC 8693 section 2.2.1).

    value: the token itself, the response's `access_token`.
    token_type: how it is used, `Bearer` for one.
    issued_token_type: what it is, a URN.
    expires_in_s: from the response on; None if the authorization server does not say.
    scope: None if it is the one that was asked for.
    """

    value: str = field(repr=False)
    issued_token_type: str = ACCESS_TOKEN
    token_type: str = "Bearer"  # noqa: S105 - a type, no token
    expires_in_s: float | None = None
    scope: str | None = None

    def __post_init__(self) -> None:
        if self.expires_in_s is not None and not 0 <= self.expires_in_s <= MAX_LIFETIME_S:
            raise ValueError(f"expires_in_s must be 0 to {MAX_LIFETIME_S}: {self.expires_in_s}")


class Exchanger(Protocol):
    """Gets a token in exchange for another."""

    async def exchange(self, request: ExchangeRequest) -> AccessToken:
        """Return a new token, within a time of its own choice.

        Raises ExchangeRefused or ExchangeUnavailable. It is not called again for the same request
        while a call runs; it is cancelled when the application that waits for it goes away.
        """
        ...
