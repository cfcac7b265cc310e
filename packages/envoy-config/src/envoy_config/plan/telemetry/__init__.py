"""The logs and traces of one proxy: what Telemetry objects, providers and mesh config come to."""
