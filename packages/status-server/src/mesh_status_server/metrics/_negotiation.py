"""Which format a scraper takes, and in which one an application answered.

protobuf is refused in either direction: messages of several sources can't be put into one stream
with text. Source of the rules for wildcards: Istio's agent.
"""

from enum import StrEnum
from typing import NamedTuple

from mesh_status_server.http._compression import quality

_OPENMETRICS = "application/openmetrics-text"
_TEXT = "text/plain"
_ACCEPTED_TEXT = "text/plain;version=0.0.4"
_WILDCARDS = {
    "*/*": _ACCEPTED_TEXT,
    "text/*": _ACCEPTED_TEXT,
    "application/*": f"{_OPENMETRICS};version=0.0.1",
}
_AS_TEXT = frozenset({"", _TEXT, "application/octet-stream"})


class Format(StrEnum):
    """A format of metrics, by its content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS_0 = "application/openmetrics-text; version=0.0.1; charset=utf-8"
    OPENMETRICS_1 = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    @property
    def is_openmetrics(self) -> bool:
        """Whether a page of this format ends with `# EOF`."""
        return self is not Format.TEXT


class Accepted(NamedTuple):
    """The formats that a scraper takes.

    forwarded: an Accept header for the applications; without protobuf and wildcards.
    openmetrics: whether OpenMetrics is among the formats.
    """

    forwarded: str
    openmetrics: bool


def accepted(accept: str) -> Accepted:
    """Return the formats of an Accept header; text, if it has none of ours."""
    forwarded: dict[str, None] = {}
    openmetrics = False
    for item in accept.split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        name = name.lower()
        if quality([parameter.lower() for parameter in parameters]) == 0:
            continue
        if name in _WILDCARDS:
            weight = [each for each in parameters if each.lower().startswith("q")]
            forwarded[";".join([_WILDCARDS[name], *weight])] = None
        elif name in (_TEXT, _OPENMETRICS):
            forwarded[item.strip()] = None
        openmetrics = openmetrics or name in (_OPENMETRICS, "application/*")
    return Accepted(",".join(forwarded) or _ACCEPTED_TEXT, openmetrics)


def format_of(content_type: str) -> Format | None:
    """Return the format of a page by its Content-Type; None if it holds no metrics in text."""
    name, *parameters = (part.strip().lower() for part in content_type.split(";"))
    if name == _OPENMETRICS:
        return Format.OPENMETRICS_0 if "version=0.0.1" in parameters else Format.OPENMETRICS_1
    return Format.TEXT if name in _AS_TEXT else None


def merged_format(formats: list[Format]) -> Format:
    """Return the format of an answer that has pages of these formats of applications.

    OpenMetrics only if all of them are.
    """
    for one in (Format.TEXT, Format.OPENMETRICS_0, Format.OPENMETRICS_1):
        if one in formats:
            return one
    return Format.TEXT
