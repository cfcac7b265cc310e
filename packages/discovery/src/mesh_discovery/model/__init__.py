"""The mesh that a configuration describes: services, endpoints and policies."""
