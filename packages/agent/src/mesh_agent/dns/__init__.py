"""Answers the workload's DNS queries from the name table that the control plane sends."""
