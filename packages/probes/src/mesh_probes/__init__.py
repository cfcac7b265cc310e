"""Checks the health of an application, and tells when it changes.

A check always ends in an `Outcome` within the probe's timeout, whatever the application does.
"""

from mesh_probes._errors import ProbeConfigError
from mesh_probes._health_state import HealthState, Thresholds, Verdict
from mesh_probes._outcome import Outcome
from mesh_probes._probe import Action, Exec, GrpcHealth, HttpGet, Probe, TcpSocket
from mesh_probes._watching import watching_health
from mesh_probes.checking._check import check
from mesh_probes.parsing._kubernetes import parse_kubernetes_probers
from mesh_probes.parsing._readiness_probe import parse_readiness_probe

__all__ = [
    # what is checked
    "Probe",
    "Action",
    "HttpGet",
    "TcpSocket",
    "Exec",
    "GrpcHealth",
    # check once
    "check",
    "Outcome",
    # check again and again
    "Thresholds",
    "HealthState",
    "Verdict",
    "watching_health",
    # probes as others write them
    "parse_kubernetes_probers",
    "parse_readiness_probe",
    "ProbeConfigError",
]
