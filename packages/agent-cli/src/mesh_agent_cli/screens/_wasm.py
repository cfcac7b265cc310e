"""The part of the `status` screen about Envoy's Wasm filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from mesh_agent_cli.screens._fields import mapping, moment, seconds_between, text
from mesh_agent_cli.screens._terminal import Row, Tone
from mesh_command_line import span

_MOST = 10


def wasm_rows(wasm: Mapping[str, object], now: datetime) -> Iterator[Row]:
    """How many filters have their modules, and why the others have none."""
    filters = {name: mapping(mapping(wasm, "filters"), name) for name in mapping(wasm, "filters")}
    if not filters:
        return
    missing = {name: each for name, each in filters.items() if not text(each, "file")}
    count = len(filters)
    said = f"{count} filter{'s' if count != 1 else ''}"
    if not missing:
        yield Row("Wasm", f"{said} with {'their modules' if count != 1 else 'its module'}")
        return
    yield Row("Wasm", f"{said}, {len(missing)} WITHOUT A MODULE", Tone.BAD)
    for name, each in list(missing.items())[:_MOST]:
        since_s = seconds_between(moment(each, "since"), now)
        lasting = "" if since_s is None else f" for {span(max(0, since_s))}"
        without = text(each, "without_module")
        parts = [f"{without}{lasting}" if without else "", text(each, "reason")]
        yield Row("missing", f"{name}: {': '.join(filter(None, parts))}", Tone.BAD, below=True)
    if len(missing) > _MOST:
        yield Row("missing", f"and {len(missing) - _MOST} more", Tone.BAD, below=True)
