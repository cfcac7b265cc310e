"""Whether the rules that lead the workload's traffic to Envoy fit the interception mode."""

from collections.abc import Iterator

from mesh_doctor._config import DoctorConfig
from mesh_doctor._finding import Cause, Finding, ok, problem, skipped, warning
from mesh_doctor._observed import Observed

CHECK = "capture"
_SETTING = "ISTIO_META_INTERCEPTION_MODE"


def capture(config: DoctorConfig, seen: Observed) -> Iterator[Finding]:
    """Compare the mode with the rules."""
    mode, rules = config.interception.upper(), seen.capture.rules
    if rules is None:
        yield skipped(CHECK, seen.capture.reason)
    elif mode in {"REDIRECT", "TPROXY"} and not rules:
        yield problem(
            CHECK,
            Cause.CAPTURE_MISSING,
            f"the interception mode is {mode}, and there are no rules that capture traffic: the "
            "application's traffic goes past Envoy",
            "let the init container, the CNI plugin or istio-iptables make the rules in this "
            f"network namespace, or set {_SETTING} to NONE",
        )
    elif mode == "NONE" and rules:
        yield warning(
            CHECK,
            Cause.CAPTURE_UNWANTED,
            "the interception mode is NONE, and there are rules that capture traffic",
            f"remove them (istio-clean-iptables), or set {_SETTING} to the mode that they are for",
        )
    elif rules:
        yield ok(CHECK, f"there are rules that capture traffic{f' ({mode})' if mode else ''}")
    else:
        yield ok(CHECK, f"no rules capture traffic; the interception mode is {mode or 'not set'}")
