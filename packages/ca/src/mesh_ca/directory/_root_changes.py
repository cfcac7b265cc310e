"""Changes the root of an authority that was generated here: due steps, and a replacement."""

import logging
import math
import time
from collections.abc import Callable
from pathlib import Path

from mesh_ca._errors import StorageError
from mesh_ca._files import read_file, replacing_files
from mesh_ca.authority._keys import KeyType
from mesh_ca.authority._profile import whole_second
from mesh_ca.authority._serial_number import random_serial_number
from mesh_ca.authority._signer import ROOT_CERT
from mesh_ca.directory._own_root import (
    NEXT_CERT,
    NEXT_KEY,
    PRIVATE_FILES,
    ROOT_STATE,
    RootPolicy,
    RootState,
    Step,
    files_after,
    next_step,
    replacement_files,
)
from mesh_ca.directory._reading import is_own_root, read_own_root

log = logging.getLogger("mesh_ca")


def apply_due_steps(directory: Path, policy: RootPolicy, *, now: float) -> tuple[Step, ...]:
    """Do the steps that are due for a root of our own, and return them; none for a plugged-in one.

    `load_signer` reads the files that result. Raises StorageError, and leaves the files as they
    were.
    """
    moment = whole_second(now)
    done: list[Step] = []
    if not is_own_root(directory):
        return ()
    while len(done) <= len(Step):
        with replacing_files(directory, private=PRIVATE_FILES) as files:
            own = read_own_root(directory)
            step = next_step(own, policy, now=moment)
            if step is None:
                if own.state.activate_at is None:  # the new root signs: its files have moved
                    for name in (NEXT_KEY, NEXT_CERT):
                        (directory / name).unlink(missing_ok=True)
                break
            files.update(files_after(own, step, policy, now=moment, serial=random_serial_number()))
        done.append(step)
        log.info("root changed", extra={"directory": str(directory), "step": step.value})
    return tuple(done)


def next_step_at(directory: Path) -> float | None:
    """Return when the next step of a replacement is due, in Unix seconds; None without one."""
    if not is_own_root(directory):
        return None
    state = RootState.from_json(read_file(directory / ROOT_STATE))
    moments = [each for each in (state.activate_at, state.retire_at) if each is not None]
    # Steps are judged by whole seconds: `apply_due_steps` does none before the next one has begun.
    return math.ceil(min(moments)) if moments else None


def replace_root(
    directory: Path,
    policy: RootPolicy | None = None,
    *,
    root_key: KeyType = KeyType.P256,
    clock: Callable[[], float] = time.time,
) -> None:
    """Begin to replace the root by one with a new key, as its key has leaked or must not be used.

    The new root is in the trust bundle at once and signs after `policy.spread`; the old one stays
    in the bundle until `policy.retirement` after that. A process in `rotating_authority` does
    these steps.
    Raises StorageError if the authority is plugged in or is being replaced already.
    """
    if not is_own_root(directory):
        raise StorageError(
            f"the authority in {directory} was plugged in: put another there, with both roots in "
            f"{ROOT_CERT} until all workloads have a certificate below the new one"
        )
    with replacing_files(directory, private=PRIVATE_FILES) as files:
        new = replacement_files(
            read_own_root(directory),
            policy or RootPolicy(),
            key_type=root_key,
            now=whole_second(clock()),
            serial=random_serial_number(),
        )
        files.update(new)
    log.warning("root is being replaced", extra={"directory": str(directory)})
