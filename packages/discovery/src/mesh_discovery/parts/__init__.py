"""The parts of a control plane: its configuration, its authority, its xDS server, its ports."""
