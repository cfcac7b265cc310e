"""The mistakes in metadata that Kubernetes and Istio refuse in an object of any kind."""

from collections.abc import Iterator

from istio_config.kinds.authorization_policy import AUTHORIZATION_POLICY
from istio_config.kinds.checks import is_object_name
from istio_config.kinds.metadata import DRY_RUN, Metadata
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.unread_kinds import OF_ISTIO
from mesh_configfile.shapes import Finding
from mesh_identity import InvalidSpiffeId, checked_segment


def metadata_mistakes(metadata: Metadata, kind: AnyKind | None) -> Iterator[Finding]:
    """Yield what is wrong with the metadata of an object."""
    try:
        checked_segment(metadata.namespace, what="namespace")
    except InvalidSpiffeId as error:
        yield ("metadata", "namespace"), str(error)
    if not is_object_name(metadata.name):
        yield (
            ("metadata", "name"),
            (
                f'"{metadata.name}" can\'t name an object: up to 253 of a-z, 0-9, "-" and "." can, '
                "with a letter or a digit at both ends"
            ),
        )
    if kind is None or not kind.group.endswith(OF_ISTIO) or kind is AUTHORIZATION_POLICY:
        return
    if DRY_RUN in metadata.annotations:
        yield (
            ("metadata", "annotations", DRY_RUN),
            f"is for AuthorizationPolicies alone, and this is a {kind.name}; remove it",
        )
