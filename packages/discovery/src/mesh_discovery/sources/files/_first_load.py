"""The first reading of a configuration, which fails when a file system does not answer.

Later readings wait for it, as there is a last good configuration then.
"""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

from mesh_configfile import Problem
from mesh_discovery._config_error import ConfigError
from mesh_discovery.sources.files._loader import ConfigLoader, Reached
from mesh_filewatch import FETCH_TIMEOUT_S

T = TypeVar("T")


def first_reading(
    work: Callable[[], T], loader: ConfigLoader, *, patience_s: float = FETCH_TIMEOUT_S
) -> T:
    """Return the result of `work`, a method of the loader, as long as it makes progress.

    Raises ConfigError with the path at which the loader had none for `patience_s`. The thread that
    hangs there does not hold up the end of the program. While the loader waits for no file system,
    it may take the time that a large configuration takes.
    """
    answer: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 - goes to the caller, by the future
            answer.set_exception(error)

    threading.Thread(target=run, name="first reading", daemon=True).start()
    reached: Reached | None = None
    while reached is None or reached[1] is None or reached != loader.reached:
        reached = loader.reached
        done, _ = concurrent.futures.wait((answer,), patience_s)
        if done:
            return answer.result()
    path = reached[1]
    reason = f"its file system did not answer within {patience_s:g} s, is its mount hanging?"
    raise ConfigError([Problem(file=str(path), line=1, message=f"can't be read: {reason}")])
