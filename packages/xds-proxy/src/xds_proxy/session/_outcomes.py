"""The consequences of a request of Envoy's."""

from __future__ import annotations

from typing import NamedTuple

from xds_proxy.session._unanswered import Sent


class TooMuchError(Exception):
    """A client subscribes to more than the relay keeps for one stream; the text names the bound."""


class Answered(NamedTuple):
    """Envoy accepted a response, or refused it.

    sent: the response. error: why Envoy refused it; None if it accepted it.
    request: the answer as Envoy sent it.
    """

    sent: Sent
    error: str | None
    request: bytes


class Requested(NamedTuple):
    """The consequences of a request of Envoy's.

    names_versions: it says that Envoy has something of the type.

    upstream: the request for the upstream stream; None if there is nothing to say, or no stream.
    answered: the responses that it answers.
    """

    type_url: str
    names_versions: bool
    upstream: bytes | None
    answered: list[Answered]
