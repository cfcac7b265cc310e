"""The rules that steer a workload's traffic through Envoy.

A configuration becomes rules, which can be explained packet by packet, rendered, applied, compared
and removed. Modules are loaded when they are first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
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
        ISTIO_VARIABLES,
        Action,
        CaptureConfig,
        DnsCapture,
        HostFacts,
        IstioFlag,
        IstioSettings,
        IstioVariable,
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
    "ISTIO_VARIABLES",
    "IstioFlag",
    "IstioVariable",
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

_LOADED_WHEN_USED = {
    "ALL": "config",
    "Action": "config",
    "Applied": "applying",
    "Backend": "_backend",
    "CaptureConfig": "config",
    "CaptureFailed": "_errors",
    "Chain": "rules",
    "Cleaned": "applying",
    "ConnectionState": "rules",
    "Direction": "rules",
    "DnsCapture": "config",
    "Explanation": "rules",
    "Family": "rules",
    "HostFacts": "config",
    "ISTIO_FLAGS": "config",
    "ISTIO_VARIABLES": "config",
    "InvalidCapture": "_errors",
    "IstioFlag": "config",
    "IstioVariable": "config",
    "IstioSettings": "config",
    "LockTimedOut": "_errors",
    "Match": "rules",
    "Mode": "config",
    "Observed": "applying",
    "Outcome": "rules",
    "Packet": "rules",
    "Protocol": "rules",
    "Rule": "rules",
    "RuleSet": "rules",
    "TABLE_NAME": "backends",
    "TrafficCaptureError": "_errors",
    "ValidationResult": "validating",
    "Verdict": "rules",
    "Way": "validating",
    "apply_capture": "applying",
    "build_rules": "rules",
    "clean_capture": "applying",
    "explain": "rules",
    "look_up_facts": "kernel",
    "observe_capture": "applying",
    "read_arguments": "config",
    "read_istio_settings": "config",
    "render_iptables": "backends",
    "render_nft": "backends",
    "validate_capture": "validating",
}

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
