"""The rules that steer a workload's traffic through Envoy.

A configuration becomes rules, which can be explained packet by packet, rendered, applied, compared
and removed.
"""

from mesh_traffic_capture._backend import Backend
from mesh_traffic_capture._errors import (
    CaptureFailed,
    InvalidCapture,
    LockTimedOut,
    TrafficCaptureError,
)
from mesh_traffic_capture.applying import (
    Applied,
    Cleaned,
    Observed,
    apply_capture,
    clean_capture,
    observe_capture,
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
from mesh_traffic_capture.kernel import look_up_facts
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
from mesh_traffic_capture.validating import ValidationResult, Way, validate_capture

__all__ = [
    # what is to be redirected
    "ALL",
    "CaptureConfig",
    "DnsCapture",
    "Mode",
    "Action",
    "HostFacts",
    "look_up_facts",
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
    # in the kernel
    "apply_capture",
    "Applied",
    "clean_capture",
    "Cleaned",
    "observe_capture",
    "Observed",
    "Backend",
    "validate_capture",
    "ValidationResult",
    "Way",
    # what can go wrong
    "TrafficCaptureError",
    "InvalidCapture",
    "LockTimedOut",
    "CaptureFailed",
]
