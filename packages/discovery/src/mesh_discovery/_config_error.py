"""The error of a user's configuration: every mistake at once."""

from collections.abc import Iterable

from mesh_configfile import Problem


class ConfigError(Exception):
    """A configuration that can't be used; `problems` holds every mistake."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))
