"""The types that the agent itself consumes, reports with and asks for, beside those of Envoy."""
