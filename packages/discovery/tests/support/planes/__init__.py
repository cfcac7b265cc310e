"""What the tests of the control plane share: documents, processes, Envoys, and waiting."""

from planes._documents import WEB, Documents, entry, peer_authentication, workload
from planes._envoys import Envoy, WorkloadSecrets, bootstrap
from planes._lab import Lab
from planes._processes import Plane, Process, run_command, start
from planes._resources import as_json, proxy, proxyless
from planes._waiting import eventually

__all__ = [
    "WEB",
    "Documents",
    "Envoy",
    "Lab",
    "Plane",
    "Process",
    "WorkloadSecrets",
    "as_json",
    "bootstrap",
    "entry",
    "eventually",
    "peer_authentication",
    "proxy",
    "proxyless",
    "run_command",
    "start",
    "workload",
]
