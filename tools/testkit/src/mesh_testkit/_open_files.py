"""As many open files as the commands have, which raise their soft limit.

The usual one of 1 024 is fewer than both ends of a thousand connections.
"""

from __future__ import annotations

import resource

_MOST = 65_536
"""Where the machine sets no limit, or a billion, programs that look at each number take minutes."""


def raise_open_files_limit() -> None:
    """Raise the soft limit of this process, and of what it starts, as far as the hard one lets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
