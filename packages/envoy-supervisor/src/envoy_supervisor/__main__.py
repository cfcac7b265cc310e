"""Runs the command: `python -m envoy_supervisor`."""

import sys

from envoy_supervisor._command import main

if __name__ == "__main__":
    sys.exit(main())
