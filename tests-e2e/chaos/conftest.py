"""The tests of the chaos suite itself, and a short run of it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
