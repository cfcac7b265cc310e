"""`python -m mesh_agent_cli` is the `mesh-agent` command."""

import sys

from mesh_agent_cli import main

sys.exit(main())
