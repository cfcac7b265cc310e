"""The base of the structs of all kinds, and the types of their fields."""

from typing import Annotated, Any, TypeAlias

import msgspec

PortNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Labels: TypeAlias = dict[str, str]
Unchecked: TypeAlias = Any
"""A field that may hold anything; msgspec has no other word for it."""


class SpecFields(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Fields as YAML has them: names are camelCase there, and an unknown one is a mistake."""
