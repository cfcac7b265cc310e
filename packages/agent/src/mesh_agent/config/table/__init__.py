"""The flags and variables of Istio's agents, of release 1.11 and of today, and how each counts."""
