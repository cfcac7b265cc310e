"""Whether there is room for what the agent writes."""

from collections.abc import Iterable, Iterator, Sequence

from mesh_doctor._config import DoctorConfig
from mesh_doctor._finding import Cause, Finding, ok, problem, skipped, warning
from mesh_doctor._observed import Observed, SeenDisk, entry, text

CHECK = "disk"
_NEEDED_BYTES = 64 << 10
"""A certificate with its chain and roots; saved configuration takes more."""
_FREE = "remove files there, or mount a larger volume"


def disks(config: DoctorConfig, seen: Observed) -> Iterator[Finding]:
    """Look at the directories, and at what the agent says that it could not write."""
    bad = [found for each in _by_file_system(seen.disks) for found in _by_last_seen(each, config)]
    yield from bad
    yield from _not_saved(seen)
    if seen.disks and not bad:
        known = [each.free_bytes for each in seen.disks if each.free_bytes is not None]
        least = f", {_size(min(known))} free at least" if known else ""
        yield ok(CHECK, f"{len(seen.disks)} directories that the agent writes to{least}")


def _by_file_system(disks: Iterable[SeenDisk]) -> Iterable[Sequence[SeenDisk]]:
    """Return the directories of each file system: what is wrong with it is one problem."""
    together: dict[object, list[SeenDisk]] = {}
    for each in disks:
        place = each.directory.path if each.file_system is None else each.file_system
        together.setdefault((place, each.read_only), []).append(each)
    return together.values()


def _by_last_seen(together: Sequence[SeenDisk], config: DoctorConfig) -> Iterator[Finding]:
    """Judge directories of one file system by the one of them that was looked at last."""
    seen = together[-1]
    named = [f"{each.directory.path} ({each.directory.use})" for each in together]
    where, be = ", ".join(named), "is" if len(named) == 1 else "are"
    if seen.reason and config.other_user:
        yield skipped(CHECK, f"{where} can't be looked at: {seen.reason} ({config.other_user})")
    elif seen.reason:
        fix = "see why the file system does not answer; the agent waits for it, too"
        yield problem(CHECK, Cause.DISK_SILENT, f"{where} can't be looked at: {seen.reason}", fix)
    elif seen.read_only:
        fix = "mount a volume there that can be written, or name another directory"
        yield problem(CHECK, Cause.DISK_READ_ONLY, f"{where} {be} on a read-only file system", fix)
    elif seen.free_bytes is not None and seen.free_bytes < _NEEDED_BYTES:
        said = f"{where} {be} on a full disk: {_size(seen.free_bytes)} free"
        yield problem(CHECK, Cause.DISK_FULL, said, _FREE)
    elif seen.free_files == 0:
        said = f"{where} {be} on a file system that can hold no further file"
        yield problem(CHECK, Cause.DISK_FULL, said, _FREE)


def _not_saved(seen: Observed) -> Iterator[Finding]:
    document = seen.agent.document
    for what, problem_ in (
        ("configuration", text(entry(entry(document, "xds"), "saved"), "problem")),
        ("learned roots", text(entry(document, "learned_roots"), "problem")),
    ):
        if problem_:
            yield warning(
                CHECK,
                Cause.NOT_SAVED,
                f"{what} could not be saved: {problem_}",
                "correct what the reason names; until then a start without a control plane has "
                "what was saved before",
            )


def _size(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count // size} {unit}"
    return f"{count} bytes"
