"""Documents of any kind, as a check looks at them: pods of Deployments, annotations, status."""

from istio_config.manifests._manifest import Manifest, manifest_of, manifests_of

__all__ = ["Manifest", "manifest_of", "manifests_of"]
