"""Headers that proxies send to a provider."""

from collections.abc import Iterator, Sequence

from istio_config.kinds.checks import is_header_name
from istio_config.kinds.fields import SpecFields, Text
from istio_config.kinds.formats import header_value_mistake
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class SentHeader(SpecFields, frozen=True):
    """A header that proxies send to a collector."""

    name: Text
    value: str | None = None
    env_name: str | None = None
    """The variable of the control plane's environment that has the value, which is not read."""


def sent_header_mistakes(headers: Sequence[SentHeader], path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a list of headers."""
    for index, each in enumerate(headers):
        here = (*path, index)
        if each.value is not None and each.env_name is not None:
            yield here, "has value and envName: keep one"
        elif not each.value and not each.env_name:
            yield here, "needs a value, or the name of a variable in envName"
        yield from header_mistakes(each.name, each.value or "", (*here, "name"), (*here, "value"))


def header_mistakes(
    name: str, value: str, name_path: FieldPath, value_path: FieldPath
) -> Iterator[Finding]:
    """Yield what is wrong with the name or the value of a header, each at its own path."""
    if not is_header_name(name):
        yield name_path, f'"{name}" is not the name of a header'
    elif (wrong := header_value_mistake(value)) is not None:
        yield value_path, wrong
