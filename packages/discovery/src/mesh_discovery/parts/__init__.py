"""The three parts of a running control plane: its configuration, its authority, its ports."""
