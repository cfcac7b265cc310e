"""The conditions for the agent to be ready; ready is when all are set and no stop was requested.

| condition | is set when | where |
|---|---|---|
| `certificate` | there is a valid one, or another process serves it | `_certificate.py` |
| `envoy` | Envoy has clusters and listeners and is live; remembered until it ends | `_envoy.py` |
| (of a gateway) | besides, it has a listener; part of `envoy` | `_gateway.py` |
| `dns` | where the agent answers DNS: there has been a name table | `_dns.py` |
| `files` | the files that gRPC applications start from are there | `_grpc_files.py` |
| of any name | what the caller of `mesh_agent.run(conditions=...)` says | `../_common_start.py` |

While Envoy is not, the reason names the clusters that are warming (`_warming.py`).

An Envoy that starts from saved configuration meets `envoy` like any other, and the agent is ready.
That it is stale is a detail: trouble shown with readiness, which it does not decide. Details are
added in `../_envoy_watches.py`: `configuration` (refused, in the words of `_refusals.py`),
`saved_configuration` (stale since; `_stale.py`, which also says for `envoy` why nothing saved could
be used), `gateway` (its last listener is gone; `_gateway.py`), `draining`, `envoy_certificate`
(`identity/_served_certificate.py`).

`mesh_lifecycle.Readiness` combines all of them, `status/_endpoints.py` tells the result at
`/healthz/ready`, and `status/_description.py` for `mesh-agent status`.
"""
