import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_platform import NoMetadata, machine_provider
from mesh_platform._platform import word


@pytest.mark.parametrize(
    ("tables", "provider"),
    [
        ({"sys_vendor": "Amazon EC2\n"}, "aws"),
        ({"sys_vendor": "Xen", "product_version": "4.11.amazon"}, "aws"),
        ({"sys_vendor": "Google", "product_name": "Google Compute Engine"}, "gcp"),
        ({"product_name": "Google"}, "gcp"),
        (
            {
                "sys_vendor": "Microsoft Corporation",
                "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77",
            },
            "azure",
        ),
        ({"sys_vendor": "Microsoft Corporation"}, None),  # Hyper-V at home
        ({"sys_vendor": "QEMU"}, None),
        ({}, None),
    ],
)
def test_the_firmwares_tables_name_the_provider(
    tmp_path: Path, tables: dict[str, str], provider: str | None
) -> None:
    for name, text in tables.items():
        (tmp_path / name).write_text(text)
    assert machine_provider(tmp_path) == provider


def test_tables_that_are_no_files_or_too_long_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "sys_vendor")
    (tmp_path / "product_name").write_bytes(b"\xff" * 20_000_000)
    assert machine_provider(tmp_path) is None


@given(st.one_of(st.text(), st.integers(), st.none(), st.lists(st.text()), st.booleans()))
def test_a_name_is_short_and_of_plain_characters_or_refused(value: object) -> None:
    try:
        text = word(value, "zone")
    except NoMetadata:
        return
    assert 0 < len(text) <= 256
    assert text.isascii()
    assert "/" not in text
