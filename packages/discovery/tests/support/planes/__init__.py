"""What the tests of the control plane share: processes, Envoys, and waiting."""

from planes._envoys import Envoy, WorkloadSecrets, bootstrap
from planes._lab import Lab
from planes._processes import Plane, Process, run_command, start
from planes._waiting import eventually

__all__ = [
    "Envoy",
    "Lab",
    "Plane",
    "Process",
    "WorkloadSecrets",
    "bootstrap",
    "eventually",
    "run_command",
    "start",
]
