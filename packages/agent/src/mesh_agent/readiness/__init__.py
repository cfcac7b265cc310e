"""The conditions for the agent to be ready, each kept true or false by what it depends on.

Every agent has `certificate`, and `dns` where it answers DNS queries. With an Envoy it has `envoy`;
for a gRPC application that runs without one, `files`.
"""
