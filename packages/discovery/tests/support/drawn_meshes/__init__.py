"""Random meshes that are valid, and what may be wrong with the resources generated from them."""

from drawn_meshes._faults import envoy_says, faults
from drawn_meshes._field_rules import broken_rules
from drawn_meshes._loaded import loaded
from drawn_meshes._mesh import Mesh, is_served, meshes, yaml_of

__all__ = [
    "Mesh",
    "broken_rules",
    "envoy_says",
    "faults",
    "is_served",
    "loaded",
    "meshes",
    "yaml_of",
]
