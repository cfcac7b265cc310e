"""The rules as values, built from a configuration and explained packet by packet; pure."""

from mesh_traffic_capture.rules._build import build_rules
from mesh_traffic_capture.rules._explain import (
    Direction,
    Explanation,
    Outcome,
    Packet,
    Step,
    explain,
)
from mesh_traffic_capture.rules._meanings import RULE_NAMES, meaning
from mesh_traffic_capture.rules._networks import merge
from mesh_traffic_capture.rules._rule import (
    Chain,
    ConnectionState,
    Family,
    Hook,
    Match,
    Protocol,
    Rule,
    RuleSet,
    Table,
    Verdict,
    VerdictKind,
)

__all__ = [
    "RULE_NAMES",
    "Chain",
    "ConnectionState",
    "Direction",
    "Explanation",
    "Family",
    "Hook",
    "Match",
    "Outcome",
    "Packet",
    "Protocol",
    "Rule",
    "RuleSet",
    "Step",
    "Table",
    "Verdict",
    "VerdictKind",
    "build_rules",
    "explain",
    "meaning",
    "merge",
]
