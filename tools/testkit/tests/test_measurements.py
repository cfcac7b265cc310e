from pathlib import Path

import pytest

from mesh_testkit.measurements import FIGURES_FILE, FLOOR, Row, exceeded, rows_in, tell

ROW = Row("a call", "µs", [200.0, 330.0, 240.0], {FLOOR: [100.0, 110.0, 120.0]})


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    assert ROW.ratio(FLOOR) == 2.0


def test_rows_are_read_as_they_were_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures"
    monkeypatch.setenv(FIGURES_FILE, str(file))
    tell([ROW, ROW._replace(what="another")])
    assert rows_in(file) == [ROW, ROW._replace(what="another")]
    first = capsys.readouterr().out.splitlines()[0]
    assert "240 (200-330) µs" in first
    assert "floor 110 (100-120), ratio 2.00" in first


def test_rounds_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="argument 2 is longer"):
        ROW._replace(ours=[1.0]).ratio(FLOOR)


def test_a_budget_that_is_exceeded_or_not_measured_is_reported() -> None:
    assert exceeded([ROW], {"a call": 2.0}) == []
    assert exceeded([ROW], {"a call": 1.9, "a start": 3.0}) == [
        "a call: 2.00 times its floor, at most 1.9",
        "a start: has a budget, and was not measured",
    ]
