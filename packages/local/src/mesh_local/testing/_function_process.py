"""Runs a function in a process of its own: `python _function_process.py MODULE NAME`.

A script, so that the module of the function is the first of the program that is loaded.
"""

import asyncio
import importlib
import inspect
import operator
import sys
from pathlib import Path


def main() -> None:
    """Import the module, call the function, and run what it returns if it is a coroutine."""
    module, name = sys.argv[1:3]
    if sys.path[0] == str(Path(__file__).parent):  # not so with PYTHONSAFEPATH
        del sys.path[0]
    del sys.argv[1:]
    function = operator.attrgetter(name)(importlib.import_module(module))
    result = function()
    if inspect.iscoroutine(result):
        asyncio.run(result)


if __name__ == "__main__":
    main()
