"""The YAML files below a directory, and to which of them an event of a directory belongs."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mesh_configfile import Problem

SUFFIXES = (".yaml", ".yml")


@dataclass(slots=True, kw_only=True)
class Tree:
    """The files of a configuration, in order, and the directories that they are in."""

    files: list[str] = field(default_factory=list)
    directories: set[str] = field(default_factory=set)
    """The real directories that were listed, and those that files behind links are in."""
    watched: set[Path] = field(default_factory=set)
    """All directories in which an event may concern the configuration."""
    listed: dict[str, str] = field(default_factory=dict)
    """How paths in a directory begin that was listed, by its real path."""
    has_links: bool = False
    """Whether some file is behind a link: any entry may then lead to another file."""
    further: tuple[str, ...] = ()
    """The files that were named beside the directory."""
    beside: dict[tuple[str, str], str] = field(default_factory=dict)
    """The paths of those that are no links, by their real directory and name."""

    def files_of(self, changed: Iterable[tuple[str, str]]) -> Mapping[str, bool] | None:
        """Return the files that these entries are, and whether they exist; None if all may be it.

        changed: directories, and the names in them. Only a plain file with a name that is read is
        told apart; a directory that came or went, or a link, may change what other paths are.
        """
        found: dict[str, bool] = {}
        for directory, name in changed:
            path = self._path(directory, name)
            if path is None:
                return None
            mode = _mode(path)
            if path in self.further:
                found[path] = True  # that it is missing is a mistake
            elif self._may_lead_elsewhere(directory, name, path, mode):
                return None
            elif directory in self.listed and name.endswith(SUFFIXES) and name[0] != ".":
                found[path] = bool(mode)
        return found

    def _path(self, directory: str, name: str) -> str | None:
        if (path := self.beside.get((directory, name))) is not None:
            return path
        here = self.listed.get(directory)
        if here is not None:
            return _below(here, name)
        is_beside = any(directory == each for each, _ in self.beside)
        return _below(directory, name) if is_beside else None

    def _may_lead_elsewhere(self, directory: str, name: str, path: str, mode: int) -> bool:
        """Tell whether what other paths lead to may depend on this entry."""
        if mode and not stat.S_ISREG(mode):
            return True
        if name.startswith("."):
            return self.has_links
        if directory not in self.listed:
            return not mode  # it may have been a part of the path to the files
        return not mode and path in self.listed.values()


def _mode(path: str) -> int:
    """Return the mode of what is at a path, a link itself; 0 if there is nothing."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _below(directory: str, name: str) -> str:
    return name if directory == "." else f"{directory}/{name}"


def read_tree(
    directory: Path,
    *,
    further: Iterable[Path] = (),
    problems: list[Problem],
    reach: Callable[[str], None],
) -> Tree:
    """List the YAML files below a directory, by name, and `further` files last.

    problems: gets those of directories that can't be listed. reach: called with each path.
    """
    tree = Tree()
    tree.files += _yaml_files(str(directory), problems, tree, reach)
    tree.watched |= set(map(Path, tree.directories))
    for each in further:
        reach(str(each))
        tree.files.append(str(each))
        tree.further += (str(each),)
        beside, real = each.absolute().parent, each.resolve().parent
        tree.watched |= {beside, real}
        if not each.is_symlink():
            tree.beside[str(real), each.name] = str(each)
    return tree


def _yaml_files(
    directory: str, problems: list[Problem], tree: Tree, reach: Callable[[str], None]
) -> Iterator[str]:
    """Yield the YAML files below, by name; unlisted ones are not configuration.

    Kubernetes keeps a projected volume's files twice, in `..2026_01_01` and behind links.
    """

    def walk(here: str) -> Iterator[str]:
        reach(here)
        real = os.path.realpath(here)
        if real in tree.listed:
            return
        tree.listed[real] = here
        tree.directories.add(real)
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError as error:
            problems.append(Problem(file=here, line=1, message=f"can't be read: {error.strerror}"))
            return
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = _below(here, entry.name)
            reach(path)
            if entry.is_dir():
                tree.has_links = tree.has_links or entry.is_symlink()
                yield from walk(path)
            elif entry.name.endswith(SUFFIXES):
                if entry.is_symlink():
                    tree.has_links = True
                    tree.directories.add(os.path.dirname(os.path.realpath(path)))  # noqa: PTH120
                yield path

    reach(directory)
    if not os.path.isdir(directory):  # noqa: PTH112
        what = "is not a directory" if os.path.exists(directory) else "does not exist"  # noqa: PTH110
        message = f"the config directory {what}"
        problems.append(Problem(file=directory, line=1, message=message))
        return
    yield from walk(directory)
