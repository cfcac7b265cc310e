"""Operations: the requests that a rule is about; fields match as in a source (`_sources`).

A path may be a template: `{*}` stands for one segment, `{**}` for any number of them. Envoy crashes
when it loads a rule with a malformed template (uri_template), so nothing doubtful passes.

Source: Istio's API, security/v1.
"""

import re
from collections.abc import Iterator

from istio_config.kinds.authorization_policy._values import (
    Values,
    asterisk_warnings,
    port_mistakes,
    value_mistakes,
)
from istio_config.kinds.fields import SpecFields
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class Operation(SpecFields, frozen=True):
    """The requests that a rule is about."""

    hosts: Values = ()
    not_hosts: Values = ()
    ports: Values = ()
    not_ports: Values = ()
    methods: Values = ()
    not_methods: Values = ()
    paths: Values = ()
    not_paths: Values = ()


class To(SpecFields, frozen=True):
    """An entry of `to`."""

    operation: Operation | None = None


_OPERATIONS = dict(
    zip(Operation.__struct_encode_fields__, Operation.__struct_fields__, strict=True)
)
_LITERAL = re.compile(r"[A-Za-z0-9\-._~!$&'()+,;:@=%]+")
_ONE, _ANY = "{*}", "{**}"


def operation_mistakes(operation: Operation | None, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with an operation."""
    if operation is None or operation == Operation():
        yield path, "is empty; say which requests, or leave out `to` if any is meant"
        return
    for name, field in _OPERATIONS.items():
        values = getattr(operation, field)
        yield from value_mistakes(values, (*path, name))
        if name in ("ports", "notPorts"):
            yield from port_mistakes(values, (*path, name))
        if name in ("paths", "notPaths"):
            for index, each in enumerate(values):
                text = _template_mistake(each) if is_template(each) else None
                if text is not None:
                    yield (*path, name, index), text


def operation_warnings(operation: Operation, path: FieldPath) -> Iterator[Finding]:
    """Yield the values of an operation that never match, or match something else."""
    for name, values in (("methods", operation.methods), ("notMethods", operation.not_methods)):
        for index, each in enumerate(values):
            if each != each.upper():
                yield (
                    (*path, name, index),
                    f'"{each}" never matches: methods are case-sensitive, write {each.upper()}',
                )
    for name, values in (("paths", operation.paths), ("notPaths", operation.not_paths)):
        for index, each in enumerate(values):
            if not each.startswith(("/", "*")):
                yield (*path, name, index), f'"{each}" never matches: paths begin with "/"'
            elif "?" in each:
                yield (*path, name, index), f'"{each}" never matches: queries are not looked at'
        yield from asterisk_warnings(
            [each for each in values if not is_template(each)], (*path, name)
        )
    yield from asterisk_warnings(operation.hosts, (*path, "hosts"))
    yield from asterisk_warnings(operation.not_hosts, (*path, "notHosts"))


def is_template(path: str) -> bool:
    """Return whether a path has the operators of a template."""
    return _ONE in path or _ANY in path


def _template_mistake(path: str) -> str | None:
    """Return what is wrong with a template, or None."""
    if not path.startswith("/"):
        return f'"{path}" has operators, and does not begin with "/"'
    segments = path[1:].split("/")
    after_any = False
    for each in segments:
        if each in (_ONE, _ANY):
            if after_any:
                return f'"{path}": nothing with an operator can come after "{_ANY}"'
            after_any = each == _ANY
            continue
        if "{" in each or "}" in each:
            return f'"{path}": an operator must be a whole segment, "{_ONE}" or "{_ANY}"'
        if each and not _LITERAL.fullmatch(each):
            return f'"{path}": "{each}" has characters that can\'t stand in a path with operators'
    if "" in segments[:-1]:
        return f'"{path}" has an empty segment'
    return None


def envoy_template(path: str) -> str:
    """Return a template as Envoy spells it."""
    return path.replace(_ANY, "**").replace(_ONE, "*")
