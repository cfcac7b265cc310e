"""The agent's log: Istio's flags and scopes, and levels that are changed while the agent runs."""
