"""The screen of a mesh: how many workloads are ready, what is wrong, and one line a workload.

It fits the terminal: lines that have no room are shown as a number, those about trouble last. Wider
terminals get more columns, and taller ones more lines.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from textwrap import wrap
from typing import NamedTuple

from rich.style import Style
from rich.text import Text

from mesh_local._duration_text import brief
from mesh_local._mesh_status import MeshStatus, WorkloadState, WorkloadStatus
from mesh_local.processes._children import ChildState

_SERIAL_DIGITS = 12
"""As many as `mesh-agent` shows, of the end: the authority begins those of one day alike."""
_LEAST_NAME = 12
_BEFORE_REASON = 2
"""The columns before the reason of a workload that is not ready."""
_GAP = 2

_COLOURS = {
    WorkloadState.READY: "green",
    WorkloadState.STARTING: "yellow",
    WorkloadState.WAITING: "yellow",
    WorkloadState.LEAVING: "yellow",
    WorkloadState.NOT_READY: "red bold",
    WorkloadState.ENDED: "red bold",
    WorkloadState.RESTARTING: "red bold",
}
_QUIET = "dim"


class _Column(NamedTuple):
    """A column of the table."""

    heading: str
    cell: Callable[[WorkloadStatus, datetime], Text]


def mesh_screen(
    status: MeshStatus, now: datetime, *, width: int, height: int | None = None, hint: str = ""
) -> Text:
    """Return the screen. `now` is aware.

    height: the lines that there are; None shows all there is, as for a file. hint: the last line.
    """
    head = [_headline(status, width)]
    problems = [*_problems(status, width)]
    foot = [*_foot(status, now, width), *([Text(hint, _QUIET)] if hint else ())]
    rows = [*_rows(status, now, width)]
    if height is not None:
        # A blank line around the table, and the headings; half of what is left may tell of trouble.
        room = height - len(head) - sum(_height(each, width) for each in foot) - 3
        problems = _cut(problems, max(2, room - min(len(rows), room // 2)), "more problems")
        rows = _cut_rows(rows, status, max(2, room - len(problems)) + 1)
    return Text("\n").join((*head, *problems, Text(), *rows, Text(), *foot))


def _height(line: Text, width: int) -> int:
    return max(1, -(-line.cell_len // width))


def _headline(status: MeshStatus, width: int) -> Text:
    wanted = len(status.wanted)
    line = Text.assemble((status.name, "bold"))
    all_ready = status.ready == wanted
    line.append("  ")
    line.append(f"{status.ready} of {wanted} ready", "green bold" if all_ready else "yellow bold")
    if leaving := len(status.workloads) - wanted:
        line.append(f", {leaving} leaving", "yellow")
    if count := len(status.problems):
        line.append(f"  {count} problem{'s' if count > 1 else ''}", "red bold")
    ways = [*_ends_of_headline(status)]
    fitting = (way for way in ways if line.cell_len + way.cell_len <= width)
    line.append_text(next(fitting, ways[-1]))
    line.truncate(width, overflow="ellipsis")
    return line


def _ends_of_headline(status: MeshStatus) -> Iterator[Text]:
    """Yield what may follow in the first line, the longest first; all have the control plane."""
    words = status.control_plane_state
    runs = words.startswith(ChildState.RUNNING)
    if runs and not status.control_plane_answers:
        words = "does not answer"
    colour = "green" if runs and status.control_plane_answers else "red bold"
    tls, plane = f"  mutual TLS {status.mtls}", f"  control plane {status.control_plane}"
    brief_words = words.partition(" after ")[0].partition(",")[0]
    for before, state in ((tls, words), ("", words), ("", brief_words)):
        yield Text.assemble((f"{before}{plane} ", _QUIET), (state, colour))
    yield Text(plane, _QUIET)


def _problems(status: MeshStatus, width: int) -> Iterator[Text]:
    """The lines about what is wrong; those about the rules in a colour of their own."""
    for problem in status.problems:
        for line in problem.splitlines():
            yield from _wrapped(line, width, "yellow" if line in status.findings else "red")


def _wrapped(text: str, width: int, colour: str) -> Iterator[Text]:
    lines = wrap(text, width - 2, subsequent_indent="  ", break_on_hyphens=False)
    yield from (Text(line, colour) for line in lines)


def _certificate(each: WorkloadStatus, now: datetime) -> Text:
    if each.serial is None or each.not_after is None:
        return Text("none yet", "yellow")
    left = brief(each.not_after - now)
    serial = f"…{each.serial[-_SERIAL_DIGITS:]} "
    return Text.assemble((serial, _QUIET), (left, "red bold" if left == "expired" else ""))


def _addresses(urls: Sequence[str]) -> Text:
    """Return addresses that a terminal opens when they are clicked; of further ones the port."""
    cell, host = Text(), ""
    for url in urls:
        before, _, port = url.rpartition(":")
        its_host = before.removeprefix("http://")
        shown, host = f":{port}" if its_host == host else url, its_host
        style = Style(link=url) if url.startswith("http") else Style()
        cell.append(" " if cell else "").append(shown, style)
    return cell or Text("-")


_COLUMNS = (
    _Column("WORKLOAD", lambda each, _: Text(each.full_name)),
    _Column("STATE", lambda each, _: Text(each.state, _COLOURS[each.state])),
    _Column("CERTIFICATE", _certificate),
    _Column("ADDRESS", lambda each, _: _addresses(each.urls)),
)
_WHERE_THERE_IS_ROOM = (
    _Column("HTTP PROXY", lambda each, _: Text(each.proxy or "-")),
    _Column("DNS", lambda each, _: Text(each.names or "-")),
    _Column("PROGRAM", lambda each, _: Text(each.program)),
    _Column("ENVOY", lambda each, _: Text(each.envoy or "none")),
    _Column("IDENTITY", lambda each, _: Text(each.spiffe_id, _QUIET)),
)
"""The columns that a terminal has if they fit, the most useful first."""


def _rows(status: MeshStatus, now: datetime, width: int) -> Iterator[Text]:
    def cells(column: _Column) -> list[Text]:
        heading = Text(column.heading, _QUIET)
        return [heading, *(column.cell(each, now) for each in status.workloads)]

    def size(column: Sequence[Text]) -> int:
        return max(cell.cell_len for cell in column)

    table = [cells(column) for column in _COLUMNS]
    sizes = [min(size(table[0]), max(_LEAST_NAME, width * 2 // 5)), *map(size, table[1:])]
    for column in map(cells, _WHERE_THERE_IS_ROOM):
        if sum(sizes) + size(column) + _GAP * len(sizes) <= width:
            table.append(column)
            sizes.append(size(column))
    for each, row in zip((None, *status.workloads), zip(*table, strict=True), strict=True):
        line, shown = Text(), row
        if each is not None and each.state is not WorkloadState.READY and each.reason:
            # What it waits for is worth more than where it will be.
            shown = (*row[:_BEFORE_REASON], Text(each.reason))
        for cell, its_size in zip(shown, sizes, strict=False):
            fitting = cell if cell is not row[0] else _shortened(cell, its_size)
            line.append_text(fitting).append(" " * (its_size - fitting.cell_len + _GAP))
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
        yield line


def _shortened(cell: Text, size: int) -> Text:
    """Return a cell of at most this size, without its middle: names differ in their ends."""
    if cell.cell_len <= size:
        return cell
    after = (size - 1) // 2
    return cell[: size - 1 - after] + Text("…") + cell[cell.cell_len - after :]


def _cut(lines: list[Text], room: int, more: str) -> list[Text]:
    if len(lines) <= room:
        return lines
    return [*lines[: room - 1], Text(f"… {len(lines) - room + 1} lines about {more}", "red")]


def _cut_rows(rows: list[Text], status: MeshStatus, room: int) -> list[Text]:
    """Return the heading and as many rows as there is room for; those that are ready go first."""
    if len(rows) <= room:
        return rows
    heading, *table = rows
    paired = [*zip(status.workloads, table, strict=True)]
    order = sorted(range(len(paired)), key=lambda at: paired[at][0].state is WorkloadState.READY)
    kept = sorted(order[: room - 2])
    left = [paired[at][0] for at in range(len(paired)) if at not in set(kept)]
    ready = sum(each.state is WorkloadState.READY for each in left)
    words = "all ready" if ready == len(left) else f"{ready} of them ready"
    return [heading, *(paired[at][1] for at in kept), Text(f"… {len(left)} more, {words}", _QUIET)]


def _foot(status: MeshStatus, now: datetime, width: int) -> Iterator[Text]:
    if status.last_edit is not None and status.last_edit_at is not None:
        ago = brief(now - status.last_edit_at)
        when = "just now" if ago == "expired" else f"{ago} ago"
        line = Text.assemble(("edit   ", _QUIET), f"{when}: {status.last_edit}")
        line.truncate(width, overflow="ellipsis")
        yield line
    if status.request_to_try is not None:
        # It is copied as a whole, so that it is never cut.
        yield Text.assemble(("try    ", _QUIET), status.request_to_try)
    folder = f"{status.state_dir}/logs"
    yield Text.assemble(("logs   ", _QUIET), (folder, Style(link=f"file://{folder}")))
