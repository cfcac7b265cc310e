"""The status server: its endpoints, the description of the agent, and its metrics."""
