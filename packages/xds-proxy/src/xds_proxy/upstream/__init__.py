"""The connection to the control plane, and the credentials that it is opened with."""
