"""Checks that several kinds share: names, hosts, labels, exportTo, percentages, durations.

Each says what is wrong in a sentence that begins after the field's name, or yields findings.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from istio_config.addresses import MAX_HOST_LENGTH, is_host
from istio_config.kinds.protocol import Protocol
from mesh_configfile import Duration, FieldPath
from mesh_configfile.shapes import Finding

_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WILDCARD_LABEL = re.compile(r"\*(-?[a-z0-9]([a-z0-9_-]{0,60}[a-z0-9])?)?", re.IGNORECASE)
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~A-Za-z0-9-]+")
_PLAIN_HEADER_NAME = re.compile(r"[-_A-Za-z0-9]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def below(path: FieldPath, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield what was found in a section, with the path of the section before the paths in it."""
    for inner, message in findings:
        yield path + inner, message


def is_dns_label(text: str) -> bool:
    """Return whether this can name a namespace, a port or a subset."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_object_name(text: str) -> bool:
    """Return whether this can name an object, by the rule of Kubernetes for most kinds."""
    return len(text) <= MAX_HOST_LENGTH and _OBJECT_NAME.fullmatch(text) is not None


def is_wildcard_host(text: str) -> bool:
    """Return whether this is a host name, whose first label may begin with `*`, or be it alone."""
    first, dot, rest = text.partition(".")
    if not first.startswith("*"):
        return is_host(text)
    return _WILDCARD_LABEL.fullmatch(first) is not None and (not dot or is_host(rest))


def is_header_name(text: str) -> bool:
    """Return whether this can name a header, by RFC 9110."""
    return _HEADER_NAME.fullmatch(text) is not None


def is_plain_header_name(text: str) -> bool:
    """Return whether a name has letters, digits, `-` and `_` alone, as some fields need it."""
    return _PLAIN_HEADER_NAME.fullmatch(text) is not None


def has_control_characters(text: str) -> bool:
    """Return whether a text has characters that Envoy refuses in headers, such as line breaks."""
    return _CONTROL.search(text) is not None


def control_character_mistakes(path: FieldPath, text: str) -> Iterator[Finding]:
    """Yield that a text has characters that Envoy refuses in headers."""
    if has_control_characters(text):
        yield path, "must not have control characters"


def several_given_mistakes(path: FieldPath, choices: Mapping[str, object]) -> Iterator[Finding]:
    """Yield that more than one of these fields is given, where one at most may be."""
    given = [name for name, value in choices.items() if value is not None]
    if len(given) > 1:
        yield path, f"has {' and '.join(given)}: keep one"


def export_to_mistakes(
    export_to: Iterable[str], namespace: str, path: FieldPath = ("exportTo",)
) -> Iterator[Finding]:
    """Yield what is wrong with the namespaces that an object in `namespace` is exported to."""
    values = tuple(export_to)
    seen: set[str] = set()
    for index, each in enumerate(values):
        named = namespace if each == "." else each
        if each not in (".", "*", "~") and not is_dns_label(each):
            yield (
                (*path, index),
                (
                    f'"{each}" is not a namespace; write a name, "." for this one, "*" for all or '
                    '"~" for none'
                ),
            )
        elif named in seen:
            yield (*path, index), f'"{each}" is given twice'
        elif each in ("*", "~") and len(values) > 1:
            yield (*path, index), f'"{each}" must stand alone'
        seen.add(named)


def port_name_warning(protocol: str, name: str, *, elsewhere: str = "") -> str | None:
    """Return the warning about a port whose name alone says a protocol, or None.

    Istio reads the name of a port in Kubernetes' Services only. elsewhere: the end of the sentence
    about proxies to which no traffic is redirected.
    """
    named = Protocol.from_port_name(name)
    if protocol or named is None:
        return None
    return (
        f'the name "{name}" declares no protocol: where traffic is redirected it is found out '
        f"by their first bytes{elsewhere}; write protocol: {named} if that is meant"
    )


def label_mistakes(labels: Mapping[str, str], path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with labels, as Kubernetes spells them."""
    for key, value in labels.items():
        prefix, slash, name = key.rpartition("/")
        if not _LABEL_NAME.fullmatch(name) or (slash and not is_host(prefix)):
            yield (*path, key), f'"{key}" is not the key of a label'
        if value and not _LABEL_NAME.fullmatch(value):
            yield (*path, key), f'"{value}" is not the value of a label'


def selector_mistakes(labels: Mapping[str, str], path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with the labels of a selector, which takes no patterns (Istio's rule)."""
    for key, value in labels.items():
        if not key:
            yield (*path, key), "the key of a label is empty"
        elif "*" in key + value:
            yield (*path, key), f'"{key}: {value}" has a wildcard; a selector takes exact values'


def percent_mistake(value: float) -> str | None:
    """Return what is wrong with a percentage, or None.

    Envoy counts shares in millionths (FractionalPercent), so that a smaller one would be none.
    """
    if not 0 <= value <= 100:
        return f"must be from 0 to 100, found {value:g}"
    if 0 < value < 0.0001:
        return f"must be 0 or at least 0.0001, found {value:g}"
    return None


def duration_mistake(value: Duration) -> str | None:
    """Return what is wrong with a duration by the bounds of Istio's validation, or None."""
    nanoseconds = round(value * 1_000_000_000)
    if nanoseconds < 1_000_000:
        return "must be at least 1ms"
    if nanoseconds % 1_000_000:
        return "must be of whole milliseconds"
    return None


def duration_mistakes(
    path: FieldPath, value: Duration | None, *, may_be_zero: bool = False
) -> Iterator[Finding]:
    """Yield what is wrong with a duration that may be left out."""
    if value is None or (may_be_zero and not value):
        return
    if (wrong := duration_mistake(value)) is not None:
        yield path, wrong
