"""`python -m mesh_dnsproxy`."""

import sys

from mesh_dnsproxy._command import main

sys.exit(main())
