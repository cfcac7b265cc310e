"""The objects in one file, and every mistake in it: a pure function of its path and bytes.

A `FileReader` parses and checks only the documents whose texts changed since it read the file last.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from istio_config._objects import (
    ConfigObject,
    ObjectKey,
    Read,
    read_object,
    read_single,
)
from istio_config.documents import documents_of
from istio_config.kinds.mesh_config import MeshConfigSpec
from istio_config.kinds.mesh_networks import MeshNetworksSpec
from istio_config.kinds.registry import AnyKind
from mesh_configfile import Document, Problem, document_texts, read_documents

_SINGLE = (MeshConfigSpec, MeshNetworksSpec)


@dataclass(frozen=True, kw_only=True)
class FileContent:
    """The objects of a file; if it has problems, the objects without."""

    objects: tuple[ConfigObject, ...] = ()
    problems: tuple[Problem, ...] = ()
    unusable: tuple[Problem, ...] = ()
    """Those of the problems that stop an object alone, as of a Secret, and not a start."""
    rest: tuple[ConfigObject, ...] = ()
    """What is right in objects with mistakes, each an object that is valid by itself."""
    unreadable: str = ""
    """The texts with objects of which nothing could be read."""
    notes: tuple[Problem, ...] = ()
    """Objects and fields that are accepted and have no effect."""
    warnings: tuple[Problem, ...] = ()
    """Fields that have an effect which is probably not meant."""
    documents: tuple[Document, ...] = ()
    """All documents as they were read first, if lines are kept: also those of no kind here."""

    @property
    def is_usable(self) -> bool:
        """Whether the objects can be served by themselves: there is no other problem."""
        return set(self.problems) <= set(self.unusable)

    @cached_property
    def by_key(self) -> Mapping[ObjectKey, ConfigObject]:
        """The objects by the keys that no others may have."""
        return {object_key(item): item for item in self.objects}


class FileReader:
    """Reads one file again and again.

    Each result is kept, by the text of its document, for as long as the file has that text.
    """

    def __init__(
        self,
        file: str,
        *,
        single: AnyKind | None = None,
        allow_unsupported: bool = False,
        keep_lines: bool = False,
    ) -> None:
        """file: its name in problems and objects. single: the kind of documents that name none.

        keep_lines: objects know the lines of all their fields.
        """
        self._keep_lines = keep_lines
        self._file = file
        self._single = single
        self._allow_unsupported = allow_unsupported
        self._known: dict[str, _Part] = {}
        self.documents_read = 0
        """How many texts were parsed; tests read it."""

    def read(self, data: bytes) -> FileContent:
        """Return the content of the file when it has these bytes."""
        known, found = self._known, list[_Part]()
        self._known = {}
        unreadable: list[Problem] = []
        texts = document_texts(data, known=known)
        for line, text in texts if len(texts) > 1 else ():
            part = known.get(text)
            if part is None:
                documents, problems = read_documents(text, file=self._file, line=line)
                self.documents_read += 1
                part = _Part.from_reads(line, self._reads(documents))
                if problems:
                    unreadable += problems
                    found.append(part._replace(unreadable=text))
                    continue
                part = part.noting_unread(text)
            self._known[text] = part = part.moved_to(line)
            found.append(part)
        if found and not unreadable:
            return _content(found, ())
        whole, problems = read_documents(data, file=self._file)
        if found and problems:  # of the whole file, nothing after the first syntax error is read
            return _content(found, unreadable)
        self._known = {}
        self.documents_read += 1
        part, text = _Part.from_reads(1, self._reads(whole)), data.decode(errors="replace")
        part = part._replace(unreadable=text) if problems else part.noting_unread(text)
        return _content((part,), problems)

    def _reads(self, documents: Sequence[Document]) -> tuple[Read, ...]:
        return tuple(
            self._read_one(each) for document in documents for each in documents_of(document)
        )

    def _read_one(self, document: Document) -> Read:
        if self._single is None:
            return read_object(
                document, allow_unsupported=self._allow_unsupported, keep_lines=self._keep_lines
            )
        return read_single(
            document,
            self._single,
            allow_unsupported=self._allow_unsupported,
            keep_lines=self._keep_lines,
        )


class _Part(NamedTuple):
    """The results of reading a text that begins on a line of the file."""

    line: int
    reads: tuple[Read, ...]
    objects: tuple[ConfigObject, ...]
    rest: tuple[ConfigObject, ...]
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    unreadable: str = ""
    unusable: tuple[Problem, ...] = ()

    @classmethod
    def from_reads(cls, line: int, reads: tuple[Read, ...]) -> "_Part":
        return cls(
            line,
            reads,
            tuple(each.item for each in reads if each.item is not None),
            tuple(each.rest for each in reads if each.rest is not None),
            tuple(problem for each in reads for problem in each.problems),
            tuple(note for each in reads for note in each.notes),
            tuple(warning for each in reads for warning in each.warnings),
            unusable=tuple(
                problem for each in reads if each.stops_itself for problem in each.problems
            ),
        )

    def moved_to(self, line: int) -> "_Part":
        by = line - self.line
        if by == 0:
            return self
        moved = _Part.from_reads(line, tuple(each.moved(by) for each in self.reads))
        return moved._replace(unreadable=self.unreadable)

    def noting_unread(self, text: str) -> "_Part":
        """Return the part, with its text as unreadable if nothing was read of some object in it."""
        is_unread = any(each.problems and each.rest is None for each in self.reads)
        return self._replace(unreadable=text) if is_unread else self


def read_content(
    data: bytes,
    *,
    file: str,
    single: AnyKind | None = None,
    allow_unsupported: bool = False,
    keep_lines: bool = False,
) -> FileContent:
    """Read a file's bytes; problems call the file `file`."""
    reader = FileReader(
        file, single=single, allow_unsupported=allow_unsupported, keep_lines=keep_lines
    )
    return reader.read(data)


def _content(parts: Sequence[_Part], problems: Sequence[Problem]) -> FileContent:
    content = FileContent(
        objects=tuple(item for part in parts for item in part.objects),
        problems=(*problems, *(problem for part in parts for problem in part.problems)),
        unusable=tuple(problem for part in parts for problem in part.unusable),
        rest=tuple(item for part in parts for item in part.rest),
        unreadable="".join(part.unreadable for part in parts),
        notes=tuple(note for part in parts for note in part.notes),
        warnings=tuple(warning for part in parts for warning in part.warnings),
        documents=tuple(
            each.document for part in parts for each in part.reads if each.document is not None
        ),
    )
    if len(content.by_key) == len(content.objects):
        return content
    duplicates = _duplicates_in(content.objects)
    return replace(content, problems=(*content.problems, *duplicates))


def unreadable(file: str, message: str, *, line: int = 1) -> FileContent:
    """Return the content of a file that can't be read, with the reason as its problem."""
    return FileContent(problems=(Problem(file=file, line=line, message=message),))


def object_key(item: ConfigObject) -> ObjectKey:
    """Return the key that no other object may have."""
    if isinstance(item.spec, _SINGLE):
        return item.kind, "", "", item.origin.cluster
    return item.key


def duplicate(item: ConfigObject, first: ConfigObject, *, remark: str = "") -> Problem:
    """Return the problem of an object whose key another object has already."""
    where = f"{first.place}{remark}"
    if isinstance(item.spec, _SINGLE):
        what = "mesh config" if isinstance(item.spec, MeshConfigSpec) else item.kind
        message = f"a second {what}, the first is at {where}; keep one"
    else:
        message = (
            f"a second {item.kind} {item.full_name}, the first is at {where}; rename or remove one"
        )
    return Problem(file=item.file, line=item.line, message=message)


def _duplicates_in(objects: Sequence[ConfigObject]) -> Iterator[Problem]:
    first: dict[ObjectKey, ConfigObject] = {}
    for each in objects:
        known = first.setdefault(object_key(each), each)
        if known is not each:
            yield duplicate(each, known)
