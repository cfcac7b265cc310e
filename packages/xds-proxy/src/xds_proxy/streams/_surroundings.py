"""The parts that the streams of one relay share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mesh_lifecycle import RepeatLog
from xds_proxy.answers._learning import AcceptedResponses
from xds_proxy.answers._response_observer import Observation
from xds_proxy.own_types._debug_requests import DebugRequests
from xds_proxy.own_types._injection import InjectedRequests
from xds_proxy.own_types._interception import Interception
from xds_proxy.quarantine._quarantine import Quarantine
from xds_proxy.rewriting._rewriting import Rewriter
from xds_proxy.saved._stale_start import StaleStart
from xds_proxy.status._counters import Counters
from xds_proxy.status._reachability import Reachability
from xds_proxy.writing._message_writer import WriteBounds


class Surroundings(NamedTuple):
    """The parts that the streams of one relay share.

    now: the Unix time. refusals: logs what Envoy refuses, by type URL.
    """

    reachability: Reachability
    counters: Counters
    now: Callable[[], float]
    interception: Interception
    injection: InjectedRequests
    debug: DebugRequests
    observation: Observation
    bounds: WriteBounds
    rewriters: Sequence[Rewriter]
    accepted: AcceptedResponses | None
    stale_start: StaleStart | None
    quarantine: Quarantine | None
    refusals: RepeatLog
