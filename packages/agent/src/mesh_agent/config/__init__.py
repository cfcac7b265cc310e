"""Settings of Istio's: read from the environment, the proxy configuration and the pod's files."""
