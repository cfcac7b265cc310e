"""`python -m mesh_agent` is `mesh-agent`, with the agent's own commands even where it is no
installed package.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mesh_agent_cli import main

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def plugins() -> "Mapping[str, EntryPoint]":
    """Return the installed commands, and the agent's own."""
    from importlib.metadata import EntryPoint, entry_points

    from mesh_agent_cli import GROUP

    own = [
        EntryPoint(name=name, value=f"mesh_agent.{function}", group=GROUP)
        for name, function in (
            ("config", "_command:register_config"),
            ("proxy", "_command:register"),
            ("iptables", "_capture:register_iptables"),
            ("clean-iptables", "_capture:register_clean_iptables"),
        )
    ]
    return {each.name: each for each in (*entry_points(group=GROUP), *own)}


EARLY = {
    "proxy": "mesh_agent._start:proxy",
    "iptables": "mesh_traffic_capture.command:run_iptables",
    "istio-iptables": "mesh_traffic_capture.command:run_iptables",
    "clean-iptables": "mesh_traffic_capture.command:run_clean_iptables",
    "istio-clean-iptables": "mesh_traffic_capture.command:run_clean_iptables",
}

if __name__ == "__main__":
    sys.exit(main(plugins=plugins, early=EARLY))
