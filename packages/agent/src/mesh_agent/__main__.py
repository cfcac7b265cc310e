"""`python -m mesh_agent` is `mesh-agent`, with the agent's own commands even where it is no
installed package.
"""

import sys
from importlib.metadata import EntryPoint, entry_points

from mesh_agent_cli import EARLY_GROUP, GROUP, main

if __name__ == "__main__":
    installed = {each.name: each for each in entry_points(group=GROUP)}
    own = [
        EntryPoint(name=name, value=f"mesh_agent._command:{function}", group=GROUP)
        for name, function in (("config", "register_config"), ("proxy", "register"))
    ]
    proxy = EntryPoint(name="proxy", value="mesh_agent._start:proxy", group=EARLY_GROUP)
    plugins = {**installed, **{each.name: each for each in own}}
    sys.exit(main(plugins=plugins, early={proxy.name: proxy}))
