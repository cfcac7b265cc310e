"""Writes a small mesh that works: the files of the example that comes along."""

from pathlib import Path

from mesh_local._errors import StateError

EXAMPLE = Path(__file__).with_name("two-services")
FILES = ("mesh.yaml", "backend.py", "frontend.py")


def write_example(folder: Path) -> tuple[Path, ...]:
    """Write the files and return their paths; raises `StateError` if one is there already."""
    targets = {folder / name: (EXAMPLE / name).read_bytes() for name in FILES}
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if there := [str(each) for each in targets if each.is_symlink() or each.exists()]:
            verb = "is" if len(there) == 1 else "are"
            raise StateError(f"{', '.join(there)} {verb} there already, and {verb} not overwritten")
        for path, content in targets.items():
            with path.open("xb") as file:
                written.append(path)
                file.write(content)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise StateError(f"{folder} can't be written: {error.strerror}") from None
    return tuple(written)
