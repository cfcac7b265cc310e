"""A push for one connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from xds_server.pushing._push_request import PushRequest
from xds_server.pushing._push_throttle import PushPermit


class Push(NamedTuple):
    """A push for one connection: its request, its permit, and what to call when it is over."""

    request: PushRequest
    permit: PushPermit
    done: Callable[[], None]
