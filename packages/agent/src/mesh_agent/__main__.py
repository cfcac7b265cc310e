"""`python -m mesh_agent` is `mesh-agent`."""

from mesh_agent_cli import main

if __name__ == "__main__":
    main()
