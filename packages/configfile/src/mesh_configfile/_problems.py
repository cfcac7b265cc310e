"""A mistake in a user's configuration: its place, what is wrong and what would be right."""

from dataclasses import dataclass

from mesh_configfile._lines import FieldPath


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One mistake, as one sentence with its place."""

    file: str
    line: int
    """From 1; 0 for what is in no file."""
    field: str = ""
    """As in `spec.ports[0].number`; empty for the document as a whole."""
    message: str
    code: str = ""
    """What others call the like, such as `IST0101` of Istio's analyzers; empty: nothing."""

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        return f"{self.place}: {field}{self.message}"

    @property
    def place(self) -> str:
        """File and line, or what stands for a file where there is none."""
        return f"{self.file}:{self.line}" if self.line else self.file


def field_name(path: FieldPath) -> str:
    """Spell a path as people do: `spec.ports[0].number`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
