"""SIGUSR1: log files are opened anew, as Envoy and what rotates logs understand it.

The agent's own files are opened anew whenever they have been moved, with or without a signal.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import envoy_supervisor


def survive_reopen_signal() -> None:
    """Keep SIGUSR1 from ending the process, as it would before anybody handles it."""
    # A function rather than SIG_IGN, which would stay in the processes that are started here.
    signal.signal(signal.SIGUSR1, lambda *_: None)


@contextmanager
def reopening_access_logs(envoy: envoy_supervisor.Envoy) -> Iterator[None]:
    """Pass the signal on to Envoy while the block runs, for the files it writes itself."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, envoy.reopen_logs)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGUSR1)
        survive_reopen_signal()
