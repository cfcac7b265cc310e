"""The YAML files below a directory, and which of them an event of a directory concerns."""

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from mesh_configfile import Problem

SUFFIXES = (".yaml", ".yml")


class TreeLimits(NamedTuple):
    """How much is listed to find the files of a configuration.

    entries: of all directories, hidden ones and other files included. behind_link: of those, behind
    one link that leads out of the directory. in_vain: behind all links that lead to more than that.
    depth: of directories in directories.
    """

    entries: int = 200_000
    behind_link: int = 20_000
    in_vain: int = 60_000
    depth: int = 64


LIMITS = TreeLimits()


@dataclass(slots=True, kw_only=True)
class Tree:
    """The files of a configuration, in order, and the directories that they are in."""

    files: list[str] = field(default_factory=list)
    directories: set[str] = field(default_factory=set)
    """The real directories that were listed, and those that files behind links are in."""
    watched: set[Path] = field(default_factory=set)
    """All directories in which an event may concern the configuration."""
    listed: dict[str, str] = field(default_factory=dict)
    """By the real path of a directory: the path by which it was listed."""
    unlisted: set[str] = field(default_factory=set)
    """The links that were not followed, and the directories that were not listed."""
    has_links: bool = False
    """Whether some file is behind a link. Any event may then change where a path leads."""
    further: tuple[str, ...] = ()
    """The files that were given beside the directory."""
    beside: dict[tuple[str, str], str] = field(default_factory=dict)
    """The paths of further files that are no links, by their real directory and name."""

    def copy(self) -> "Tree":
        """Return what was found so far, for `restore`."""
        return replace(
            self,
            files=list(self.files),
            directories=set(self.directories),
            listed=dict(self.listed),
        )

    def restore(self, before: "Tree") -> None:
        """Forget what was found since."""
        self.files = before.files
        self.directories = before.directories
        self.listed = before.listed

    def files_of(self, changed: Iterable[tuple[str, str]]) -> Mapping[str, bool] | None:
        """Return the files that these entries are, and whether they exist; None if it may be any.

        changed: directories, and names in them. A directory that was created or removed, or a link,
        may change where other paths lead; only an event of a plain file concerns that file alone.
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
        """Return whether this entry may decide where other paths lead."""
        if mode and not stat.S_ISREG(mode):
            return True
        if name.startswith("."):
            return self.has_links
        if path in self.unlisted:
            return True
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
    limits: TreeLimits = LIMITS,
) -> Tree:
    """List the YAML files below a directory, by name, and `further` files last.

    problems: gets those of directories that can't be listed and of links that can't be followed.
    reach: called with each path before it is looked at, so that a watchdog can name the one that
    hangs. No error of the file system is raised.
    """
    tree = Tree()
    _Walk(tree, problems, reach, limits).begin(str(directory))
    tree.watched |= set(map(Path, tree.directories))
    for each in further:
        path = str(each)
        reach(path)
        real = Path(os.path.realpath(each))
        tree.files.append(path)
        tree.further += (path,)
        tree.watched |= {each.absolute().parent, real.parent}
        if not os.path.islink(path):  # noqa: PTH114 - is_symlink raises for names that are too long
            tree.beside[str(real.parent), each.name] = path
    return tree


class _TooMany(Exception):
    """There are more entries than may be listed."""


class _Walk:
    """Lists the YAML files below a directory, without hidden entries.

    Kubernetes has the files of a projected volume twice: in `..2026_01_01`, and as links to it.
    """

    def __init__(
        self,
        tree: Tree,
        problems: list[Problem],
        reach: Callable[[str], None],
        limits: TreeLimits,
    ) -> None:
        self._tree = tree
        self._problems = problems
        self._reach = reach
        self._limits = limits
        self._root = ""
        self._left = limits.entries
        """How many entries may still be listed, here or behind the link that is followed."""
        self._in_vain = limits.in_vain
        """How many may still be listed behind links that turn out to lead to too much."""
        self._is_behind_link = False

    def begin(self, directory: str) -> None:
        self._reach(directory)
        if not os.path.isdir(directory):  # noqa: PTH112
            what = "is not a directory" if os.path.exists(directory) else "does not exist"  # noqa: PTH110
            self._problem(directory, f"the config directory {what}")
            return
        self._root = os.path.realpath(directory)
        try:
            self._list(directory, 0)
        except _TooMany:
            most = self._limits.entries
            self._problem(
                directory, f"has more than {most} entries below it; the others are not read"
            )

    def _problem(self, path: str, message: str) -> None:
        self._tree.unlisted.add(path)
        self._problems.append(Problem(file=path, line=1, message=message))

    def _list(self, here: str, depth: int) -> None:
        """List a directory and those in it, by name."""
        self._reach(here)
        real = os.path.realpath(here)
        if real in self._tree.listed:
            return
        self._tree.listed[real] = here
        self._tree.directories.add(real)
        if depth > self._limits.depth:
            message = f"is more than {self._limits.depth} directories below the config directory"
            self._problem(here, f"{message}; it is not read")
            return
        try:
            entries = self._entries(here)
        except OSError as error:
            self._problem(here, f"can't be read: {error.strerror}")
            return
        for entry in entries:
            if not entry.name.startswith("."):
                self._look_at(entry, _below(here, entry.name), depth)

    def _entries(self, here: str) -> list["os.DirEntry[str]"]:
        found = []
        with os.scandir(here) as entries:
            for each in entries:
                self._left -= 1
                if self._left < 0:
                    raise _TooMany
                found.append(each)
        return sorted(found, key=lambda entry: entry.name)

    def _look_at(self, entry: "os.DirEntry[str]", path: str, depth: int) -> None:
        self._reach(path)
        is_file = entry.name.endswith(SUFFIXES)
        is_link = entry.is_symlink()
        try:
            is_directory = entry.is_dir()
        except OSError as error:  # a link to itself, below a file, or with an impossible name
            is_directory = False
            if not is_file:
                self._problem(path, f"can't be followed: {error.strerror}")
        self._tree.has_links = self._tree.has_links or (is_link and (is_directory or is_file))
        if is_directory and is_link and not self._is_behind_link:
            self._follow(path, depth + 1)
        elif is_directory:
            self._list(path, depth + 1)
        elif is_file:
            if is_link:
                self._tree.directories.add(os.path.dirname(os.path.realpath(path)))  # noqa: PTH120
            self._tree.files.append(path)

    def _follow(self, path: str, depth: int) -> None:
        """List a directory behind a link: all that is below it, or nothing of it."""
        real = os.path.realpath(path)
        if _is_in(real, self._root):
            self._list(path, depth)
        elif _is_in(self._root, real):
            self._problem(path, f"leads to {real}, which the config directory itself is in")
        elif self._in_vain <= 0:
            self._problem(path, "is not followed, as links before it lead to too much")
        else:
            self._list_behind(path, real, depth)

    def _list_behind(self, path: str, real: str, depth: int) -> None:
        before, left, known = self._tree.copy(), self._left, len(self._problems)
        most = min(left, self._limits.behind_link)
        self._left, self._is_behind_link = most, True
        try:
            self._list(path, depth)
            self._left = left - (most - self._left)
        except _TooMany:
            self._left = left
            if left <= self._limits.behind_link:
                raise
            self._in_vain -= most
            self._tree.restore(before)
            del self._problems[known:]
            self._problem(
                path,
                f"leads to {real}, with more than {most} entries below it; "
                "link to the directories that hold configuration",
            )
        finally:
            self._is_behind_link = False


def _is_in(path: str, directory: str) -> bool:
    """Return whether a real path is a directory or below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")
