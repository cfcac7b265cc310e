"""Answers the workload's DNS queries from the name table that the control plane sends.

Whether and where, from Istio's settings: `_dns_config`. The server, and what it forwards to:
`_dns_server`. The table, taken out of the configuration stream: `_name_table_updates`, which
`_interceptors.py` of the agent gives to the relay. How a query is answered is in `mesh_dnsproxy`;
the condition for being ready in `readiness/_dns`, metrics in `status/_dns_metrics`.
"""
