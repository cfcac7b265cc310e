"""Images and artifacts of OCI registries: references, pull secrets, manifests, layers.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md
"""
