"""Finds out why a workload's proxy does not work: what is wrong, the cause, and what to do.

The doctor looks and asks, and changes nothing. It knows no agent: it is given in one value
where everything is, and returns findings.
"""

from mesh_doctor._config import (
    DnsPlace,
    DoctorConfig,
    EnvoyPlace,
    HttpPlace,
    PortUse,
    Protocol,
    Server,
    TokenPlace,
    WrittenDirectory,
)
from mesh_doctor._examine import examine
from mesh_doctor._finding import Cause, Finding, Status
from mesh_doctor._observed import Listener
from mesh_doctor._text import as_json, as_text
from mesh_doctor.observing._listeners import listeners, listening_programs

__all__ = [
    # examine
    "examine",
    # where everything is
    "DnsPlace",
    "DoctorConfig",
    "EnvoyPlace",
    "HttpPlace",
    "PortUse",
    "Protocol",
    "Server",
    "TokenPlace",
    "WrittenDirectory",
    # who listens
    "Listener",
    "listeners",
    "listening_programs",
    # what was found
    "Cause",
    "Finding",
    "Status",
    "as_json",
    "as_text",
]
