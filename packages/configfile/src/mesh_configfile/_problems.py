"""What is wrong with a user's configuration: where it is, what it is, and what would be right."""

from dataclasses import dataclass

from mesh_configfile._lines import FieldPath


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One mistake, as one sentence with its place."""

    file: str
    line: int
    field: str = ""
    """As in `spec.ports[0].number`; empty when the document as a whole is meant."""
    message: str

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        return f"{self.file}:{self.line}: {field}{self.message}"


def field_name(path: FieldPath) -> str:
    """Spell a path as people do: `spec.ports[0].number`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
