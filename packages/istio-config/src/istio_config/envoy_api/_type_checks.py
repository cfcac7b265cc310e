"""Demands of Envoy on messages of some types that no constraint of its API states.

Seen with Envoy 1.36 and 1.40.
"""

import functools
from collections.abc import Mapping
from typing import Any as Unchecked

import re2
from google.protobuf.descriptor import Descriptor

from istio_config.envoy_api import _listener_checks, _route_checks, _upstream_checks
from istio_config.envoy_api._value_checks import TypeCheck
from istio_config.expression_cost import MAX_OBJECT_COST, compile_cost


def type_checks(descriptor: Descriptor) -> tuple[TypeCheck, ...]:
    """Return the checks of a type."""
    found = _OF_TYPES.get(descriptor.full_name, ())
    choice = descriptor.oneofs_by_name.get("config_type")
    if choice is not None and any(each.name == "typed_config" for each in choice.fields):
        return (*found, _has_config)
    return found


def _has_config(message: Unchecked) -> tuple[str, str] | None:
    """Require a configuration: a name alone finds no filter, log or transport socket."""
    if message.WhichOneof("config_type") is not None:
        return None
    return "typed_config", "is missing"


def _regex(message: Unchecked) -> tuple[str, str] | None:
    if compile_cost(message.regex) > MAX_OBJECT_COST:
        return "regex", f'"{message.regex[:80]}" is too large a regular expression for Envoy'
    try:
        re2.compile(message.regex, _quiet())
    except re2.error:
        return "regex", f'"{message.regex[:80]}" is not a regular expression of RE2'
    return None


@functools.cache
def _quiet() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


_OF_TYPES: Mapping[str, tuple[TypeCheck, ...]] = {
    **_upstream_checks.CHECKS,
    **_listener_checks.CHECKS,
    **_route_checks.CHECKS,
    "envoy.type.matcher.v3.RegexMatcher": (_regex,),
}
