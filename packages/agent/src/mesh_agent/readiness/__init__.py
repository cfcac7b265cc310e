"""The conditions for the agent to be ready; ready is when all are set and no stop was requested.

`mesh_lifecycle.Readiness` combines them. Every agent has `certificate`: there is a valid one, or
another process serves it. `dns`, where the agent answers DNS queries: there has been a name table.
With an Envoy, `envoy`: it has its clusters and listeners and is live; remembered until it ends.
For a gRPC application that runs without one, `files`: those that it starts from are there.
"""
