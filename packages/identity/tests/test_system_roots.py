"""Where the machine's roots are looked for."""

import os
from pathlib import Path

import pytest

from mesh_identity import NoSystemRoots, fetch_system_roots, system_root_files
from mesh_identity._system_roots import SYSTEM_ROOT_PATHS, read_system_roots


def pem(name: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n"


@pytest.fixture
def well_known(tmp_path: Path) -> tuple[Path, ...]:
    places = tmp_path / "nowhere.pem", tmp_path / "machine.pem", tmp_path / "later.pem"
    places[1].write_text(pem("machine"))
    places[2].write_text(pem("later"))
    return places


def found(environ: dict[str, str], well_known: tuple[Path, ...]) -> list[str]:
    roots = read_system_roots(environ, well_known=well_known).roots_pem.decode()
    return [line for line in roots.splitlines() if line and not line.startswith("-----")]


def test_first_file_that_a_distribution_has_counts(well_known: tuple[Path, ...]) -> None:
    assert found({}, well_known) == ["machine"]
    roots = read_system_roots({}, well_known=well_known)
    assert roots.described == f"one of the system's roots ({well_known[1]})"
    assert not roots.own


def test_file_named_by_the_environment_stands_in_its_place(
    well_known: tuple[Path, ...], tmp_path: Path
) -> None:
    named = tmp_path / "named.pem"
    named.write_text(pem("named"))
    assert found({"SSL_CERT_FILE": str(named)}, well_known) == ["named"]
    assert found({"SSL_CERT_FILE": "", "SSL_CERT_DIR": ""}, well_known) == ["machine"]


def test_directories_named_by_the_environment_are_further_roots(
    well_known: tuple[Path, ...], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.pem").write_text(pem(name))
    (tmp_path / "a" / "5ed36f99.0").symlink_to("a.pem")  # as `openssl rehash` makes them
    (tmp_path / "a" / "dangling.pem").symlink_to("nowhere")
    (tmp_path / "a" / "README").write_text("roots of the house")
    (tmp_path / "a" / "below").mkdir()
    os.mkfifo(tmp_path / "a" / "pipe")
    directories = f"{tmp_path / 'a'}:{tmp_path / 'missing'}:{tmp_path / 'b'}"

    assert found({"SSL_CERT_DIR": directories}, well_known) == ["machine", "a", "b"]
    assert found({"SSL_CERT_DIR": directories}, ()) == ["a", "b"]
    named = {"SSL_CERT_FILE": str(well_known[2]), "SSL_CERT_DIR": str(tmp_path / "b")}
    assert found(named, well_known) == ["later", "b"]


def test_machine_without_roots_is_reported_in_one_sentence(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.pem"
    with pytest.raises(NoSystemRoots) as raised:
        read_system_roots({}, well_known=[nowhere])
    assert str(raised.value) == (
        f"the system has no root certificates in {nowhere}: set SSL_CERT_FILE or SSL_CERT_DIR, "
        "or name a root certificate file"
    )
    with pytest.raises(NoSystemRoots, match=f"no root certificates in {tmp_path}: set"):
        read_system_roots({"SSL_CERT_DIR": str(tmp_path)}, well_known=[nowhere])


async def test_file_that_is_named_and_cannot_be_used_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    named = tmp_path / "named.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(named))
    what = f"the system's root certificate file {named} \\(SSL_CERT_FILE\\)"
    with pytest.raises(NoSystemRoots, match=f"{what} does not exist"):
        await fetch_system_roots()
    named.write_text("not PEM")
    with pytest.raises(NoSystemRoots, match=f"{what} holds no PEM certificate"):
        await fetch_system_roots()
    with pytest.raises(NoSystemRoots, match=r"cannot be read: it is a directory"):
        await fetch_system_roots({"SSL_CERT_FILE": str(tmp_path)})
    named.write_text(pem("named"))
    assert (await fetch_system_roots()).roots_pem == pem("named").encode()


def test_files_that_may_be_followed_are_reported_without_a_look_at_them() -> None:
    assert system_root_files({}) == SYSTEM_ROOT_PATHS
    assert system_root_files({"SSL_CERT_FILE": "/roots.pem"}) == (Path("/roots.pem"),)
