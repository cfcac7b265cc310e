"""Reads configuration that people write: YAML with line numbers, and all its mistakes at once.

Also reads durations and quantities. No large library is loaded before it is needed: a program whose
configuration is JSON never loads the YAML library. `mesh_configfile.shapes`, with the extra
`shapes`, checks data against msgspec's types.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mesh_configfile._document import Document, Value
from mesh_configfile._durations import (
    LONGEST,
    Duration,
    DurationBoundsError,
    DurationError,
    parse_duration,
    spell_duration,
)
from mesh_configfile._suggestion import suggestion

if TYPE_CHECKING:
    from mesh_configfile._builder import MAX_DEPTH, MAX_VALUES
    from mesh_configfile._lines import FieldPath
    from mesh_configfile._problems import Problem, field_name
    from mesh_configfile._quantities import QuantityError, parse_bytes
    from mesh_configfile._reading import read_document
    from mesh_configfile._yaml import MAX_BYTES, document_texts, read_documents

__all__ = [
    # read
    "Document",
    "FieldPath",
    "Value",
    "document_texts",
    "read_document",
    "read_documents",
    # limits
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_VALUES",
    # mistakes
    "Problem",
    "field_name",
    "suggestion",
    # durations and quantities
    "LONGEST",
    "Duration",
    "DurationBoundsError",
    "DurationError",
    "QuantityError",
    "parse_bytes",
    "parse_duration",
    "spell_duration",
]

_LOADED_WHEN_USED = {
    "FieldPath": "_lines",
    "MAX_BYTES": "_yaml",
    "MAX_DEPTH": "_builder",
    "MAX_VALUES": "_builder",
    "Problem": "_problems",
    "QuantityError": "_quantities",
    "document_texts": "_yaml",
    "field_name": "_problems",
    "parse_bytes": "_quantities",
    "read_document": "_reading",
    "read_documents": "_yaml",
}

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
