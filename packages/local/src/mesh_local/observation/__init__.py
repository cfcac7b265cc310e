"""What a running mesh is asked: agents' status, the control plane's findings, the checks."""
