"""What the tests share: the support modules on the path, a table, and servers on free ports."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
