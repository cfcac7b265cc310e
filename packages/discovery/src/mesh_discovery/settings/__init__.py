"""The flags and variables of Istio's control plane, and how each counts here."""
