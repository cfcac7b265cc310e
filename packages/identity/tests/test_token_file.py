"""The file of a bearer token."""

from pathlib import Path

import pytest

from mesh_identity import TokenFileError, fetch_token


async def test_token_is_what_stands_between_white_space(tmp_path: Path) -> None:
    file = tmp_path / "token"
    assert await fetch_token(file) is None
    file.write_bytes(b" \n")
    assert await fetch_token(file) == ""
    file.write_bytes(b"e30.e30.e30\n")
    assert await fetch_token(file) == "e30.e30.e30"


@pytest.mark.parametrize(
    "content", [b"top\nsecret", b"top secret", b"top\0secret", b"secret\xc3\xa9", b"top\x7fsecret"]
)
async def test_what_no_header_can_carry_is_refused_and_not_repeated(
    content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(TokenFileError) as refused:
        await fetch_token(file)
    assert str(refused.value) == f"token file {file} {refused.value.reason}"
    assert "expected one word of ASCII" in refused.value.reason
    assert "secret" not in f"{refused.value!r} {refused.value}"


async def test_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match="cannot be read: it is a directory"):
        await fetch_token(tmp_path)
    (tmp_path / "token").write_bytes(b"a" * (64 << 10) + b"a")
    with pytest.raises(TokenFileError, match="cannot be read: it is larger than 65536 bytes"):
        await fetch_token(tmp_path / "token")
