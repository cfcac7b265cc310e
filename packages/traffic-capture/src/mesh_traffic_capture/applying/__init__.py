"""The rules in the kernel: seen, compared, replaced and removed."""

from mesh_traffic_capture.applying._apply import Applied, Cleaned, apply_capture, clean_capture
from mesh_traffic_capture.applying._observe import Observed, observe_capture, rule_names

__all__ = [
    "Applied",
    "Cleaned",
    "Observed",
    "apply_capture",
    "clean_capture",
    "observe_capture",
    "rule_names",
]
