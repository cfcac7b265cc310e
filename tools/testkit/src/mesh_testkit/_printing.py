"""The environment of programs whose output a test compares: it is the same on every machine."""

from __future__ import annotations

import os
from collections.abc import Mapping

PRINTING_VARIABLES = frozenset(
    {
        # Machines of CI, where pytest shortens nothing and others colour their output.
        *("CI", "BUILD_NUMBER", "GITHUB_ACTIONS"),
        # Colours and cursor movements (rich, pytest, Node, Python since 3.13).
        *("FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "PY_COLORS"),
        *("PYTHON_COLORS", "NODE_DISABLE_COLORS", "TERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
        # Where lines are wrapped.
        *("COLUMNS", "LINES", "TERMINAL_WIDTH"),
        # The language and the characters of messages.
        *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME"),
    }
)
"""What programs read to choose how they print the same thing."""


def plain_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment for a child in which it prints the same everywhere, in English.

    Nothing of pytest's is in it either, so that a pytest that a test starts is not taken for a part
    of this one.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if name not in PRINTING_VARIABLES and not name.startswith("PYTEST_")
    }
    return kept | {"LANG": "C.UTF-8"}
