"""Istio documents in the forms in which tests have them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from mesh_local._errors import ConfigurationError
from mesh_local.state._istio import to_yaml

Documents: TypeAlias = str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""One document or several; a text is YAML, a path is a file of it."""


def yaml_of(given: Documents) -> str:
    """Return the documents as YAML; text as it is, so that mistakes have its own lines.

    Raises `ConfigurationError` if a file can't be read.
    """
    if isinstance(given, str):
        return given
    if isinstance(given, Path):
        try:
            return given.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{given} can't be read: {error}") from None
    return to_yaml([given] if isinstance(given, Mapping) else given)
