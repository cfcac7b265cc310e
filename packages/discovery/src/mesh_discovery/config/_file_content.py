"""The objects in one file, and every mistake in it: a pure function of its path and bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mesh_configfile import Problem, read_documents
from mesh_discovery.config._objects import ConfigObject, Read, read_mesh_config, read_object
from mesh_discovery.config.kinds._mesh_config import MeshConfigSpec

ObjectKey = tuple[str, str, str]
"""Kind, namespace and name, which only one object can have; all mesh configs have one key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """The objects of a file; if it has problems, those objects that could be read."""

    objects: tuple[ConfigObject, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    """Objects and fields that are accepted and have no effect."""


def read_content(
    data: bytes, *, file: str, is_mesh_config: bool = False, allow_unsupported: bool = False
) -> FileContent:
    """Read a file's bytes; problems call the file `file`."""
    documents, problems = read_documents(data, file=file)
    read = read_mesh_config if is_mesh_config else read_object
    reads: list[Read] = [read(each, allow_unsupported=allow_unsupported) for each in documents]
    objects = tuple(each.item for each in reads if each.item is not None)
    return FileContent(
        objects=objects,
        problems=(
            *problems,
            *(problem for each in reads for problem in each.problems),
            *_duplicates_in(objects),
        ),
        notes=tuple(note for each in reads for note in each.notes),
    )


def unreadable(file: str, message: str, *, line: int = 1) -> FileContent:
    """Return the content of a file that can't be read at all."""
    return FileContent(problems=(Problem(file=file, line=line, message=message),))


def object_key(item: ConfigObject) -> ObjectKey:
    """Return the key that no other object may have."""
    return ("MeshConfig", "", "") if isinstance(item.spec, MeshConfigSpec) else item.key


def duplicate(item: ConfigObject, first: ConfigObject, *, remark: str = "") -> Problem:
    """Return the problem of an object whose key another object has already."""
    place = f"{first.file}:{first.line}{remark}"
    if isinstance(item.spec, MeshConfigSpec):
        message = f"a second mesh config, the first is at {place}; keep one"
    else:
        message = (
            f"a second {item.kind} {item.namespace}/{item.name}, the first is at {place}; "
            "rename or remove one"
        )
    return Problem(file=item.file, line=item.line, message=message)


def _duplicates_in(objects: Sequence[ConfigObject]) -> Iterator[Problem]:
    first: dict[ObjectKey, ConfigObject] = {}
    for each in objects:
        known = first.setdefault(object_key(each), each)
        if known is not each:
            yield duplicate(each, known)
