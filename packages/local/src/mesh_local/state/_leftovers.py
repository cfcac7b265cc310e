"""Removes what the Envoys of a killed run left outside its state folder; run as a script."""

import sys
from pathlib import Path

from mesh_local.state._folder import remove_leftovers

if __name__ == "__main__":
    for each in sys.argv[1:]:
        remove_leftovers(Path(each))
