"""The conditions for the agent to be ready; ready is when all are set and no stop was requested.

Every agent has `certificate` (`_certificate.py`): there is a valid one, or another process serves
it. `dns` (`_dns.py`), where the agent answers DNS queries: there has been a name table. With an
Envoy, `envoy` (`_envoy.py`): it has its clusters and listeners and is live; remembered until it
ends; of a gateway, that it has a listener (`_gateway.py`). For a gRPC application that runs
without one, `files` (`_grpc_files.py`): those that it starts from are there.

`mesh_lifecycle.Readiness` combines them, and `status/_endpoints.py` tells the result at
`/healthz/ready`.
"""
