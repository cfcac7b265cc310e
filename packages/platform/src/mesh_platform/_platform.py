"""The facts of a machine in a cloud."""

from collections.abc import Mapping
from typing import NamedTuple

from mesh_platform._errors import NoMetadata

_LONGEST = 256
_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ._:-()")


class Platform(NamedTuple):
    """A machine's place, empty where the provider names none, and further facts.

    name: `aws`, `azure` or `gcp`.
    metadata: facts by Istio's names for them, such as `aws_instance_id`.
    """

    name: str
    region: str = ""
    zone: str = ""
    metadata: Mapping[str, str] = {}


def word(value: object, what: str) -> str:
    """Return a name that a metadata server gave; raises `NoMetadata` for anything that is none."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not text or len(text) > _LONGEST or not _CHARACTERS.issuperset(text):
        shown = repr(value)
        raise NoMetadata(
            f"{what} is {shown[:60]}{'…' if len(shown) > 60 else ''}, which is no name"
        )
    return text


def words(values: Mapping[str, object]) -> dict[str, str]:
    """Return the values that are names; those that are none are left out."""
    found = {}
    for key, value in values.items():
        try:
            found[key] = word(value, key)
        except NoMetadata:
            continue
    return found
