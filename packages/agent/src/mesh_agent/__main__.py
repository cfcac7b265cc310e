"""`python -m mesh_agent` is `mesh-agent`, with `proxy` even where only the source is at hand."""

import sys
from importlib.metadata import EntryPoint, entry_points

from mesh_agent_cli import GROUP, main

if __name__ == "__main__":
    installed = {each.name: each for each in entry_points(group=GROUP)}
    own = EntryPoint(name="proxy", value="mesh_agent._command:register", group=GROUP)
    sys.exit(main(plugins={**installed, own.name: own}))
