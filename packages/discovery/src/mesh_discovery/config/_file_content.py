"""The text of one file as configuration, or as all that is wrong with it.

A pure function of a path and bytes: the same bytes need not be read twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mesh_configfile import Problem, read_documents
from mesh_discovery.config._objects import ConfigObject, Read, read_mesh_config, read_object
from mesh_discovery.config.kinds._mesh_config import MeshConfigSpec

Claim = tuple[str, str, str]
"""What only one object can be: kind, namespace and name; or the mesh config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """The objects of a file; with problems, what of it could be made sense of."""

    objects: tuple[ConfigObject, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    """What is accepted and has no effect."""


def read_content(
    data: bytes, *, file: str, is_mesh_config: bool = False, allow_unsupported: bool = False
) -> FileContent:
    """Read a file's bytes; `file` is how problems call it."""
    documents, problems = read_documents(data, file=file)
    read = read_mesh_config if is_mesh_config else read_object
    reads: list[Read] = [read(each, allow_unsupported=allow_unsupported) for each in documents]
    objects = tuple(each.item for each in reads if each.item is not None)
    return FileContent(
        objects=objects,
        problems=(
            *problems,
            *(problem for each in reads for problem in each.problems),
            *_twice(objects),
        ),
        notes=tuple(note for each in reads for note in each.notes),
    )


def unreadable(file: str, message: str, *, line: int = 1) -> FileContent:
    """Return the content of a file of which nothing is known but what is wrong with it."""
    return FileContent(problems=(Problem(file=file, line=line, message=message),))


def claim(item: ConfigObject) -> Claim:
    """Return what this object is and no other can be."""
    return ("MeshConfig", "", "") if isinstance(item.spec, MeshConfigSpec) else item.key


def second(item: ConfigObject, first: ConfigObject, *, remark: str = "") -> Problem:
    """Say that an object is what another is already."""
    place = f"{first.file}:{first.line}{remark}"
    if isinstance(item.spec, MeshConfigSpec):
        message = f"a second mesh config, the first is at {place}; keep one"
    else:
        message = (
            f"a second {item.kind} {item.namespace}/{item.name}, the first is at {place}; "
            "rename or remove one"
        )
    return Problem(file=item.file, line=item.line, message=message)


def _twice(objects: Sequence[ConfigObject]) -> Iterator[Problem]:
    first: dict[Claim, ConfigObject] = {}
    for each in objects:
        known = first.setdefault(claim(each), each)
        if known is not each:
            yield second(each, known)
