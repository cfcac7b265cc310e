"""The screen that is written to, and text laid out for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TextIO

_DEFAULT_WIDTH = 80
_LEAST_WIDTH = 40
_LEAST_TEXT = 20


class Screen(NamedTuple):
    """A terminal, or a file that is read as one. width: in characters."""

    width: int = _DEFAULT_WIDTH
    colour: bool = False
    terminal: bool = False


class Tone(StrEnum):
    """How a text is meant; the value is its colour's code (ECMA-48, SGR)."""

    PLAIN = ""
    GOOD = "32"
    DOUBTFUL = "33"
    BAD = "31;1"
    QUIET = "2"


def screen(stream: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> Screen:
    """Return the screen behind a stream, standard output by default.

    Colours are for terminals, unless NO_COLOR is set (https://no-color.org). A file, or a terminal
    that does not tell its width, is 80 characters wide; COLUMNS counts for both.
    """
    stream = sys.stdout if stream is None else stream
    try:
        terminal = stream is not None and stream.isatty()
    except ValueError:  # closed
        terminal = False
    colour = terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return Screen(max(_LEAST_WIDTH, _width(stream, environ, terminal=terminal)), colour, terminal)


def _width(stream: TextIO, environ: Mapping[str, str], *, terminal: bool) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns[:6]) > 0:
        return int(columns[:6])
    if terminal:
        try:
            return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_WIDTH
        except (OSError, ValueError):
            pass
    return _DEFAULT_WIDTH


class Row(NamedTuple):
    """A label and what it says. below: the label belongs to the row before."""

    label: str
    text: str
    tone: Tone = Tone.PLAIN
    below: bool = False


def rows(every: Iterable[Row], out: Screen) -> Iterator[str]:
    """Yield lines: labels in one column, texts wrapped in the other."""
    shown = [each for each in every if each.text]
    labels = [f"  {each.label}" if each.below else each.label for each in shown]
    indent = max(map(len, labels), default=0) + 2
    for each, label in zip(shown, labels, strict=True):
        lines = wrapped(each.text, max(_LEAST_TEXT, out.width - indent))
        for number, line in enumerate(lines):
            yield (label if number == 0 else "").ljust(indent) + toned(line, each.tone, out)


def toned(text: str, tone: Tone, out: Screen) -> str:
    """Return a text in its colour, if the screen has colours."""
    return f"\x1b[{tone.value}m{text}\x1b[0m" if out.colour and tone.value else text


def clean(text: object) -> str:
    """Return a value of another program as one line without control characters."""
    return "".join(each if each.isprintable() else "?" for each in " ".join(str(text).split()))


def wrapped(text: str, width: int) -> list[str]:
    """Break a text into lines; a word that is longer than a line is broken too."""
    import textwrap

    return textwrap.wrap(clean(text), width, break_on_hyphens=False) or [""]


def shortened(text: str, width: int) -> str:
    """Return a text of at most `width` characters; its middle is left out, as with versions."""
    text = clean(text)
    if len(text) <= width:
        return text
    before = (width - 1) * 2 // 3
    after = width - 1 - before
    return f"{text[:before]}…{text[len(text) - after :] if after else ''}"


class Cell(NamedTuple):
    """A text in a table."""

    text: str
    tone: Tone = Tone.PLAIN


def table(lines: Sequence[Sequence[Cell]], out: Screen, *, shrink: int) -> Iterator[str]:
    """Yield the lines of a table that fits the screen. shrink: the column that gives way."""
    widths = [max(len(line[column].text) for line in lines) for column in range(len(lines[0]))]
    over = sum(widths) + 2 * (len(widths) - 1) - out.width
    if over > 0:
        widths[shrink] = max(8, widths[shrink] - over)
    for line in lines:
        cells = [
            toned(shortened(cell.text, width).ljust(width), cell.tone, out)
            for cell, width in zip(line, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()
