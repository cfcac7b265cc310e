"""Documents of any kind, as a check looks at them: pods of Deployments, annotations, status."""

from istio_config.manifests._manifest import Manifest, manifest_of, manifests_of
from istio_config.manifests._review import ManifestReview, review_manifests

__all__ = ["Manifest", "ManifestReview", "manifest_of", "manifests_of", "review_manifests"]
