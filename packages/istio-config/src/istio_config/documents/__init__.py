"""Documents, whatever their kind: those inside others, and the metadata of objects."""

from istio_config.documents._inner_documents import documents_of, mesh_config_in
from istio_config.documents._metadata_rules import metadata_mistakes

__all__ = ["documents_of", "mesh_config_in", "metadata_mistakes"]
