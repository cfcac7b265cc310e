"""The metadata of a configuration object: its name, its namespace, its labels."""

import msgspec

from istio_config.kinds.fields import Labels, SpecFields, Text, Unchecked

DRY_RUN = "istio.io/dry-run"
"""The annotation of policies that Envoy evaluates and does not enforce (shadow rules)."""


class Metadata(SpecFields, frozen=True):
    """The part of Kubernetes object metadata that has a meaning here, and what may stand beside."""

    name: Text
    namespace: Text = "default"
    labels: Labels = msgspec.field(default_factory=dict)
    annotations: Labels = msgspec.field(default_factory=dict)
    creation_timestamp: str | None = None
    generation: Unchecked = None
    resource_version: Unchecked = None
    uid: Unchecked = None
    managed_fields: Unchecked = None
    owner_references: Unchecked = None
    finalizers: Unchecked = None
    generate_name: Unchecked = None
    self_link: Unchecked = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Unchecked = None
