"""The conditions for the agent to be ready, each kept true or false by what it depends on."""
