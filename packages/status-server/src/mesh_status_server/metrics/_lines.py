"""Lines of metrics: what is one, and how one format's lines become the other's.

Loaded at the first scrape of another process.
"""

import re
from contextlib import suppress

_NAME = rb"[a-zA-Z_:][a-zA-Z0-9_:.]*+"
_NUMBER = rb"[-+]?+(?:[0-9.]|[iI][nN][fF]|[nN][aA][nN])[^ \t\r\n]*+"
# Of labels only the end is looked for: what is between is the source's own.
_LABELS = rb"\{[^\n]*?\}"
_LINE = (
    rb"(?:(?:" + _NAME + rb"(?:[ \t]*+" + _LABELS + rb")?|" + _LABELS + rb")[ \t]++"
    rb"" + _NUMBER + rb"(?:[ \t]++-?[0-9.][^ \t\n]*+)?(?:[ \t]++#[^\n]*+)?[ \t]*+"
    rb"|#[^\n]*+|[ \t]*+)\n"
)
_LINES = re.compile(rb"(?:" + _LINE + rb")*+")
_BAD_BEGINNING = re.compile(rb"\n[^a-zA-Z_:{#\n \t]")
_SAMPLE = re.compile(
    rb'([^\s{]*+(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*+")*+\})?+)[ \t]+(\S+)(?:[ \t]+([^\s#]\S*))?'
)
_END = re.compile(rb"^# EOF[ \t]*\n", re.MULTILINE)
_COMMENT = re.compile(rb"^(?:#([^\n]*)|[ \t]*)\n", re.MULTILINE)
_LONGEST_QUOTE = 80
_BY_ENVOY = b"envoy_istio_"
_ISTIOS = re.compile(
    rb"^((?:# (?:TYPE|HELP) )?)envoy_"
    rb"(?=istio_(?:requests_total|request_duration_milliseconds|request_bytes|response_bytes"
    rb"|tcp_(?:sent|received)_bytes_total|tcp_connections_(?:opened|closed)_total)(?![a-zA-Z0-9:]))",
    re.MULTILINE,
)


def first_bad_line(lines: bytes) -> bytes | None:
    """Return the first line that is no line of metrics; for the beginning of a page."""
    matched = _LINES.match(lines)
    end = matched.end() if matched else 0
    return None if end == len(lines) else _line_at(lines, end)


def badly_begun_line(lines: bytes) -> bytes | None:
    """Return a line whose first character no line of metrics has, None without one.

    This is twenty times faster than `first_bad_line`, and finds what is put behind a good start.
    """
    if lines[:1] and _BAD_BEGINNING.match(b"\n" + lines[:1]):
        return _line_at(lines, 0)
    found = _BAD_BEGINNING.search(lines)
    return None if found is None else _line_at(lines, found.start() + 1)


def _line_at(lines: bytes, start: int) -> bytes:
    end = lines.find(b"\n", start)
    return lines[start : min(end if end >= 0 else len(lines), start + _LONGEST_QUOTE)]


def without_end(lines: bytes) -> bytes:
    """Return the lines without OpenMetrics' `# EOF`."""
    return _END.sub(b"", lines) if b"# EOF" in lines else lines


def with_istios_names(lines: bytes) -> bytes:
    """Return lines of an Envoy with Istio's metrics under Istio's names.

    Envoy puts `envoy_` before the names of all statistics that its configuration asks for.
    """
    return _ISTIOS.sub(rb"\1", lines) if _BY_ENVOY in lines else lines


def text_as_openmetrics(lines: bytes) -> bytes:
    """Return lines of Prometheus' text as OpenMetrics, in which samples keep their names.

    A counter whose name does not end with `_total` gets the type `unknown`. Help, other comments
    and empty lines are left out. Samples are not looked at: the text must have no timestamps.
    """
    return _COMMENT.sub(_openmetrics_comment, lines)


def _openmetrics_comment(comment: re.Match[bytes]) -> bytes:
    match (comment[1] or b"").split():
        case [b"TYPE", name, b"counter"] if name.endswith(b"_total"):
            return b"# TYPE " + name.removesuffix(b"_total") + b" counter\n"
        case [b"TYPE", name, b"counter" | b"untyped"]:
            return b"# TYPE " + name + b" unknown\n"
        case [b"TYPE", name, kind]:
            return b"# TYPE " + name + b" " + kind + b"\n"
        case _:
            return b""


# By OpenMetrics' type: what its samples' names have behind the metric's, and the type of text.
_TEXT_TYPES = {
    b"counter": (b"_total", b"counter"),
    b"info": (b"_info", b"gauge"),
    b"stateset": (b"", b"gauge"),
    b"gaugehistogram": (b"", b"untyped"),
    b"unknown": (b"", b"untyped"),
}


def openmetrics_as_text(lines: bytes) -> bytes:
    """Return lines of OpenMetrics as Prometheus' text: without units and exemplars."""
    # Not `splitlines`: the value of a label may hold other ends of lines than "\n".
    parted = lines.removesuffix(b"\n").split(b"\n") if lines else []
    return b"".join(_text_line(line + b"\n") for line in parted)


def _text_line(line: bytes) -> bytes:
    if line.startswith(b"#"):
        return _text_comment(line)
    if (sample := _SAMPLE.match(line)) is None:
        return line
    name, value, seconds = sample.groups()
    if seconds is not None:
        with suppress(ValueError, OverflowError):
            return b"%b %b %d\n" % (name, value, round(float(seconds) * 1000))
    return name + b" " + value + b"\n"


def _text_comment(line: bytes) -> bytes:
    match line.split():
        case [b"#", b"TYPE", name, kind]:
            suffix, kind = _TEXT_TYPES.get(kind, (b"", kind))
            return b"# TYPE " + name + suffix + b" " + kind + b"\n"
        case [b"#", b"HELP", *_]:
            return line
        case _:
            return b""
