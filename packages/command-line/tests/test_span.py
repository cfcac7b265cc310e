import pytest

from mesh_command_line import span


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (599, "9 min 59 s"),
        (600, "10 min"),
        (605, "10 min"),
        (3600, "1 h"),
        (81_600, "22 h 40 min"),
        (86_400, "1 d"),
        (300_000, "3 d 11 h"),
    ],
)
def test_time_spans_have_two_units(seconds: int, shown: str) -> None:
    assert span(seconds) == shown
