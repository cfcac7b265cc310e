"""Import a package as its user does and check that what it promises is there."""

from __future__ import annotations

import importlib
import sys
from importlib.resources import files


def main(name: str) -> str | None:
    """Return what is wrong with the public face of the import package, or None."""
    module = importlib.import_module(name)
    face = getattr(module, "__all__", None)
    if not face:
        return f"{name} has no __all__, which says what its public face is"
    missing = sorted(each for each in face if not hasattr(module, each))
    if missing:
        return f"{name}.__all__ names what {name} does not have: {', '.join(missing)}"
    if not files(name).joinpath("py.typed").is_file():
        return f"{name} has no py.typed, so its types are invisible to its users"
    print(f"{name}: {len(face)} public names")
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
