"""Exchanging an application's token for another one, on a port of this machine (Istio's STS)."""
