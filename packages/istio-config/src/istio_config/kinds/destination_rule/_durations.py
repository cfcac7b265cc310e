"""Durations of a DestinationRule."""

from collections.abc import Iterator

from istio_config.kinds.checks import duration_mistake
from mesh_configfile import Duration, FieldPath
from mesh_configfile.shapes import Finding


def duration_mistakes(
    path: FieldPath, value: Duration | None, *, may_be_zero: bool = False
) -> Iterator[Finding]:
    """Yield what is wrong with a duration that may be left out."""
    if value is None or (may_be_zero and not value):
        return
    if (wrong := duration_mistake(value)) is not None:
        yield path, wrong
