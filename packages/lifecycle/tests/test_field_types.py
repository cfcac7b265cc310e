"""What becomes of values whose type is not that of their field."""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import pytest

from mesh_lifecycle import check_fields, with_checked_fields


class Machines(Enum):
    ROOTS = "roots"


class Limits(NamedTuple):
    idle_s: float = 1.0
    file: Path | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    roots: Path | Machines | None = None
    files: tuple[Path, ...] = ()
    lifetime: timedelta = timedelta(hours=1)
    wait_s: float | None = 1.0
    count: int = 1
    enabled: bool = False
    other: "dict[str, str] | None" = None
    limits: Limits = NO_LIMITS

    def __post_init__(self) -> None:
        check_fields(self)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    path: "Path"

    def __post_init__(self) -> None:
        check_fields(self)


def settings_of(**values: object) -> Settings:
    return Settings(**values)  # type: ignore[arg-type]


def test_texts_become_paths_also_in_a_frozen_value() -> None:
    assert settings_of(roots="a/b").roots == Path("a/b")
    assert settings_of(files=["a", Path("b")]).files == (Path("a"), Path("b"))
    assert Message(path=cast("Path", "a")).path == Path("a")
    assert settings_of(limits=Limits(file=cast("Path", "a"))).limits.file == Path("a")
    assert with_checked_fields(Limits(file=cast("Path", "a"))).file == Path("a")


def test_the_types_that_are_written_are_taken() -> None:
    settings = settings_of(roots=Machines.ROOTS, wait_s=None, other={"a": "b"})
    assert settings.roots is Machines.ROOTS
    assert settings_of(wait_s=3).wait_s == 3
    assert settings_of(wait_s=float("inf")).wait_s == float("inf")
    path = Path("a")
    assert settings_of(roots=path).roots is path


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("roots", b"a", "should be a path or Machines or None"),
        ("roots", "", "should be a path"),
        ("roots", "a\0b", "should be a path"),
        ("roots", "~/a", "only known to a shell"),
        ("files", (1,), "should be a path"),
        ("files", "a", "should be a tuple of paths"),
        ("lifetime", 3600, "should be a timedelta"),
        ("lifetime", timedelta(seconds=-1), "should not be negative"),
        ("wait_s", "1", "should be a number"),
        ("wait_s", -0.1, "should not be negative"),
        ("wait_s", float("nan"), "is NaN"),
        ("count", 1.5, "should be a whole number"),
        ("count", True, "should be a whole number"),
        ("enabled", 1, "should be True or False"),
        ("limits", Limits(idle_s=cast("float", "1")), "idle_s of Limits"),
    ],
)
def test_all_others_are_refused_with_the_name_of_the_field(
    field: str, value: object, said: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=said) as refused:
        settings_of(**{field: value})
    assert field in str(refused.value) or field == "limits"
