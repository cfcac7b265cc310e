"""The commands `iptables` and `clean-iptables`, with the flags and exit statuses of Istio's tool.

An init container runs them before each pod: what they load, and what the rest of this package does,
is kept small.
"""

from __future__ import annotations

from mesh_traffic_capture.command._flags import (
    CLEAN_EXAMPLES,
    COMMAND_FLAGS,
    EXAMPLES,
    EXPLAIN,
    EXPLAIN_EXAMPLES,
    EXPLAIN_FLAGS,
)
from mesh_traffic_capture.command._run import (
    clean_iptables,
    iptables,
    run_clean_iptables,
    run_iptables,
)

__all__ = [
    # as functions that return an exit status
    "clean_iptables",
    "iptables",
    # as programs, which end the process
    "run_clean_iptables",
    "run_iptables",
    # the flags that Istio's tool does not have, and calls
    "COMMAND_FLAGS",
    "EXPLAIN",
    "EXPLAIN_FLAGS",
    "CLEAN_EXAMPLES",
    "EXAMPLES",
    "EXPLAIN_EXAMPLES",
]
