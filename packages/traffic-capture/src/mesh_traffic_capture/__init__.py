"""The rules that steer a workload's traffic through Envoy.

A configuration becomes rules, which can be explained packet by packet, rendered, applied, compared
and removed.
"""

from mesh_traffic_capture._errors import (
    CaptureFailed,
    InvalidCapture,
    LockTimedOut,
    TrafficCaptureError,
)
from mesh_traffic_capture.backends import TABLE_NAME, render_iptables, render_nft
from mesh_traffic_capture.config import (
    ALL,
    ISTIO_FLAGS,
    Action,
    CaptureConfig,
    DnsCapture,
    HostFacts,
    IstioFlag,
    IstioSettings,
    Mode,
    read_arguments,
    read_istio_settings,
)
from mesh_traffic_capture.rules import (
    Chain,
    ConnectionState,
    Direction,
    Explanation,
    Family,
    Match,
    Outcome,
    Packet,
    Protocol,
    Rule,
    RuleSet,
    Verdict,
    build_rules,
    explain,
)

__all__ = [
    # what is to be redirected
    "ALL",
    "CaptureConfig",
    "DnsCapture",
    "Mode",
    "Action",
    "HostFacts",
    "ISTIO_FLAGS",
    "IstioFlag",
    "IstioSettings",
    "read_arguments",
    "read_istio_settings",
    # the rules
    "build_rules",
    "RuleSet",
    "Chain",
    "Rule",
    "Match",
    "Verdict",
    "explain",
    "Packet",
    "Direction",
    "Protocol",
    "ConnectionState",
    "Explanation",
    "Outcome",
    # as text
    "TABLE_NAME",
    "Family",
    "render_iptables",
    "render_nft",
    # what can go wrong
    "TrafficCaptureError",
    "InvalidCapture",
    "LockTimedOut",
    "CaptureFailed",
]
