"""Files that settings name, whatever is in their place."""

from pathlib import Path

import pytest

from istio_settings import Settings

ODD = {
    "itself": "is a link that leads nowhere",
    "plain/below": "is a link that leads nowhere",
    "x" * 300: "is a link that leads nowhere",
    "/": "is not a regular file",
    "/dev/zero": "is not a regular file",
}


@pytest.mark.parametrize("target", ODD)
def test_an_odd_link_is_no_file_and_no_error(tmp_path: Path, target: str) -> None:
    (tmp_path / "plain").touch()
    path = tmp_path / "itself"
    path.symlink_to(target)
    settings = Settings({}, directory=tmp_path)

    assert not settings.is_file(path)
    assert settings.is_directory(path) is (target == "/")
    assert settings.absence(path) == ODD[target]
    assert settings.absence(tmp_path / "gone") == "does not exist"
    assert settings.resolved(path).is_absolute()
    assert settings.problems == []
