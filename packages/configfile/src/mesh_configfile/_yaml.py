"""Reads YAML text by libyaml's events: every document of a file, and all mistakes."""

import re
from collections.abc import Container, Iterator
from itertools import pairwise

import yaml

from mesh_configfile._builder import Builder, Unreadable
from mesh_configfile._document import Document
from mesh_configfile._lines import Lines
from mesh_configfile._problems import Problem

MAX_BYTES = 8 * 1024 * 1024

_AFTER_DOCUMENT_START = ("", " ", "\t", "\r", "\n")
# A directive, an alias, or a line break of another kind than the parts are counted by.
_BINDING = re.compile(r"^%|(?:^|[\s\[{,:?-])\*[^\s]|\r(?!\n)|[\x85\u2028\u2029]", re.MULTILINE)

# PyYAML without libyaml has the same events, more slowly.
_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


def read_documents(
    source: str | bytes, *, file: str, line: int = 1
) -> tuple[tuple[Document, ...], tuple[Problem, ...]]:
    """Read every document of a file that is not empty, and return all mistakes.

    The documents before a syntax error are returned as well. file: its name in problems. line: that
    of the file on which the text begins.
    """
    builder = Builder(file)
    documents: list[Document] = []
    try:
        text = _decoded(source, builder, line - 1)
        documents.extend(_documents(text, builder, line - 1))
    except Unreadable:
        pass
    return tuple(documents), tuple(builder.problems)


def document_texts(
    source: str | bytes, *, known: Container[str] = ()
) -> tuple[tuple[int, str], ...]:
    """Return the text of each document, with the line (from 1) of the file that it begins on.

    Each can be read for itself, with lines counted from there, and gives what it gives in the file.
    The whole text is one part if that is not so: it is not UTF-8, is too large, or has directives
    or what could be an alias. Nothing is parsed.

    known: texts of several that this function returned before, which are not looked through again.
    """
    try:
        text = source.decode() if isinstance(source, bytes) else source
    except UnicodeDecodeError:
        return ()
    if len(source) > MAX_BYTES:
        return ((1, text),)
    parts = []
    line = 1
    for start, end in pairwise((0, *_later_document_starts(text), len(text))):
        part = text[start:end]
        if part not in known and _BINDING.search(part):
            return ((1, text),)
        parts.append((line, part))
        line += part.count("\n")
    return tuple(parts)


def _later_document_starts(text: str) -> Iterator[int]:
    """Yield where documents begin after the first line.

    No plain or quoted text of a document may have `---` at the beginning of a line.
    """
    at = text.find("\n---")
    while at >= 0:
        if text[at + 4 : at + 5] in _AFTER_DOCUMENT_START:
            yield at + 1
        at = text.find("\n---", at + 4)


def read_lines(text: str) -> Lines:
    """Return the lines of a text's first document; only the first line if the text is not YAML."""
    documents, _ = read_documents(text, file="")
    return documents[0].tree if documents else Lines(1)


def _decoded(source: str | bytes, builder: Builder, before: int) -> str:
    if isinstance(source, str):
        try:
            data = source.encode()
        except UnicodeEncodeError as error:
            builder.fail(before + _line_at(source, error.start), "not UTF-8 text")
    else:
        data = source
    if len(data) > MAX_BYTES:
        builder.fail(before + 1, f"the file is larger than {MAX_BYTES} bytes; split it")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        builder.fail(before + line, "not UTF-8 text; save the file as UTF-8")
    # YAML's printable characters. For others libyaml's error has no line.
    if wrong := re.search("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text):
        builder.fail(
            before + _line_at(text, wrong.start()),
            f"not valid YAML: control characters are not allowed, found U+{ord(wrong[0]):04X}",
        )
    return text


def _documents(text: str, builder: Builder, before: int) -> Iterator[Document]:
    """Yield the documents of a text that has so many lines of its file before it."""
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            mark = event.start_mark
            line = before + (mark.line + 1 if mark is not None else 1)
            match event:
                case yaml.ScalarEvent():
                    builder.scalar(event, line)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    builder.open(event, line)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    builder.close()
                case yaml.AliasEvent():
                    builder.alias(event.anchor or "", line)
                case yaml.DocumentStartEvent():
                    builder.begin()
                case yaml.DocumentEndEvent():
                    if (document := builder.end()) is not None:
                        yield document
                case _:
                    pass  # the beginning or end of the stream
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(filter(None, (error.context, error.problem)))
        # For the end of a text without a last line break, libyaml has the line after it.
        lines = len(f"{text}.".splitlines())
        builder.fail(
            before + (min(mark.line + 1, lines) if mark is not None else 1),
            f"not valid YAML: {what}{_hint(text, mark)}",
        )


def _hint(text: str, mark: yaml.Mark | None) -> str:
    """Return what would be right, where libyaml's message does not say it."""
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        return "; indent with spaces, not tabs"
    return ""


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
