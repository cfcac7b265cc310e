"""Converts YAML scalars to values by the types of YAML 1.1, as Kubernetes' tools do."""

import math
from collections.abc import Callable
from typing import Any

import yaml

from mesh_configfile._document import Value

STANDARD = "tag:yaml.org,2002:"
_MAX_CHARACTERS = 64
"""A longer plain scalar is text: no number or boolean is as long."""

_RESOLVER: Any = yaml.resolver.Resolver()  # its methods have no types
_CONSTRUCTOR = yaml.constructor.SafeConstructor()


def _text(node: yaml.ScalarNode) -> str:
    return str(node.value)


_CONSTRUCT: dict[str, Callable[[yaml.ScalarNode], Value]] = {
    f"{STANDARD}null": lambda _: None,
    f"{STANDARD}bool": _CONSTRUCTOR.construct_yaml_bool,
    f"{STANDARD}int": _CONSTRUCTOR.construct_yaml_int,
    f"{STANDARD}float": _CONSTRUCTOR.construct_yaml_float,
    f"{STANDARD}str": _text,
    # Kubernetes reads times as text.
    f"{STANDARD}timestamp": _text,
    f"{STANDARD}value": _text,
    f"{STANDARD}merge": _text,
}


class ScalarError(Exception):
    """A scalar that is not valid; the message says what would be right."""


def scalar_value(event: yaml.ScalarEvent) -> Value:
    """Return the value of a scalar; raises `ScalarError`."""
    tag = event.tag
    if tag is None:
        # "1:30" is an integer in YAML 1.1, and no user means one.
        if not event.implicit[0] or len(event.value) > _MAX_CHARACTERS or ":" in event.value:
            return str(event.value)
        tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit)
    construct = _CONSTRUCT.get(tag)
    if construct is None:
        raise ScalarError(meaningless_tag(tag))
    try:
        value = construct(yaml.ScalarNode(tag, event.value))
    except (ValueError, KeyError, IndexError):
        raise ScalarError(f"{event.value[:80]!r} does not fit its tag {tag}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ScalarError(f"{event.value} is no finite number; put it in quotes if it is text")
    return value


def meaningless_tag(tag: str) -> str:
    """Return the error for a tag that is not supported."""
    return f"the tag {tag} has no meaning here: remove it"
