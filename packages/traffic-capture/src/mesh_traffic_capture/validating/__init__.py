"""Real connections through the rules."""

from mesh_traffic_capture.validating._probes import Way
from mesh_traffic_capture.validating._validate import ValidationResult, validate_capture

__all__ = ["ValidationResult", "Way", "validate_capture"]
