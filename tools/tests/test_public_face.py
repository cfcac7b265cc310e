"""Checks packages written for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

import public_face


@pytest.mark.parametrize(
    ("source", "typed", "mistake"),
    [
        ("__all__ = ['answer']\nanswer = 42\n", True, None),
        ("answer = 42\n", True, "has no __all__"),
        ("__all__ = ['answer', 'gone']\nanswer = 42\n", True, "does not have: gone"),
        ("__all__ = ['answer']\nanswer = 42\n", False, "has no py.typed"),
    ],
    ids=["complete", "no face", "a name too many", "untyped"],
)
def test_what_is_wrong_with_a_public_face_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    typed: bool,  # noqa: FBT001 - pytest passes it by name
    mistake: str | None,
) -> None:
    name = tmp_path.name  # another for each case, for modules are imported once
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(source)
    if typed:
        (tmp_path / name / "py.typed").touch()
    monkeypatch.syspath_prepend(tmp_path)
    found = public_face.main(name)
    if mistake is None:
        assert found is None
    else:
        assert found is not None
        assert mistake in found
