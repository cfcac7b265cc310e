"""What the tests of a supervised Envoy share: its configuration, its callers, and waiting."""

from supervised._bootstrap import (
    changed,
    edited,
    http_listener,
    listener_of,
    proxy_bootstrap,
    saved,
)
from supervised._clocks import LongWaits, StandingClock
from supervised._fixtures import (
    Fake,
    FreePort,
    Get,
    ProxyConfig,
    SlowApplication,
    WithoutControlPlane,
)
from supervised._load import Load, load_on
from supervised._paths import FORBIDDEN, ask, paths_to
from supervised._ports import is_refused, until_refused
from supervised._running import (
    crashed,
    gone,
    holds,
    killed,
    serving,
    stop_aside,
    until_said,
    until_state,
)

__all__ = [
    # the fixtures' types
    "Fake",
    "FreePort",
    "Get",
    "ProxyConfig",
    "SlowApplication",
    "WithoutControlPlane",
    # an Envoy's life
    "crashed",
    "gone",
    "holds",
    "killed",
    "serving",
    "stop_aside",
    "until_said",
    "until_state",
    # what it is sent
    "changed",
    "edited",
    "http_listener",
    "listener_of",
    "proxy_bootstrap",
    "saved",
    # its callers
    "FORBIDDEN",
    "Load",
    "ask",
    "is_refused",
    "load_on",
    "paths_to",
    "until_refused",
    # time
    "LongWaits",
    "StandingClock",
]
