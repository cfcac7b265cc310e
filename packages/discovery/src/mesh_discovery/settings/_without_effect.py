"""The flags and variables that were given and have no effect here, and those that are refused."""

from collections.abc import Iterable, Mapping

from istio_settings import (
    Program,
    SettingWithoutEffect,
    flags_without_effect,
    variables_without_effect,
)
from mesh_discovery.settings._flags import NOT_HONOURED
from mesh_discovery.settings._variables import VARIABLES

_PROGRAM = Program(
    "the control plane",
    variables=("CITADEL_", "ISTIOD_", "MESH_DISCOVERY_", "PILOT_"),
)


def settings_without_effect(
    passed: Iterable[tuple[str, str]], environ: Mapping[str, str]
) -> tuple[tuple[SettingWithoutEffect, ...], tuple[str, ...]]:
    """Return what has no effect, and a problem for each setting that is refused.

    passed: the flags of `NOT_HONOURED` that were given, and their values.
    """
    of_flags, refused_flags = flags_without_effect(NOT_HONOURED, passed, _PROGRAM)
    of_variables, refused_variables = variables_without_effect(VARIABLES, environ, _PROGRAM)
    return (*of_flags, *of_variables), (*refused_flags, *refused_variables)
