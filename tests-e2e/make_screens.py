"""Write docs/screens.md: what `mesh-agent status`, `certs` and `doctor` print in each trouble.

Real agents, Envoys and control planes; run it as root from the repository's root, with its packages
installed: `python tests-e2e/make_screens.py`. Serials, times and process ids are replaced by
others, so that the file changes only when the screens do.
"""

import asyncio
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

from mesh_e2e import TROUBLES, plane, screens_of

SCREENS = Path(__file__).parents[1] / "docs" / "screens.md"
PLANE, WORKLOAD = "127.70.0.1", "127.70.0.10"
HEAD = """\
# Screens

What the commands print when all is well, and in the troubles that users meet most. Each screen is
a real one, of a real agent with its Envoy beside a real control plane, started by
`tests-e2e/make_screens.py`; that `doctor` names each cause first is tested in
`tests-e2e/test_doctor.py`. Serials, times and process ids are replaced. Pictures of screens in
colour are in [screens/](screens/README.md).

`status` tells what is, `certs` what the workload has and what Envoy serves, `doctor` why it does
not work and what to do. `doctor` also works where no agent runs; its exit status is 1 if there is a
problem.

| trouble | cause that `doctor` names first |
|---|---|
"""


def main() -> None:
    """Make every screen, and write the file."""
    missing = [case.name for case in TROUBLES if case.obstacle]
    if missing:
        sys.exit(f"these can't be had on this machine: {', '.join(missing)}")
    rows, sections = [], []
    with tempfile.TemporaryDirectory() as folder, plane(Path(folder, "plane"), PLANE) as running:
        for case in TROUBLES:
            print(case.name, flush=True)
            directory = Path(folder, case.name)
            shown = asyncio.run(screens_of(case, running, directory, WORKLOAD))
            anchor = re.sub(r"[^a-z0-9 ]", "", case.title.lower()).replace(" ", "-")
            rows.append(f"| [{case.title}](#{anchor}) | {case.cause or 'none'} |")
            blocks = (
                f"```\n$ mesh-agent {words}\n{settled(text)}\n```" for words, text in shown.items()
            )
            sections.append("\n\n".join((f"## {case.title}", *blocks)))
    SCREENS.write_text(HEAD + "\n".join((*rows, "", "\n\n".join(sections), "")))


def settled(text: str) -> str:
    """Replace what differs from run to run."""
    serial = r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{26,40}\b"
    text = re.sub(serial, "4d2a76c19f03e85b4d2a76c19f03e85b4d2a76c1", text)
    text = re.sub(r"…[0-9a-f]{12}\b", "…4d2a76c19f03", text)
    text = re.sub(r"/tmp/tmp\w+/[\w-]+", "/srv/web-1", text)
    ids: dict[str, str] = {}
    text = re.sub(
        r"(key\s+id\s+)([0-9a-f]{12})[0-9a-f]{0,4}\b",
        lambda found: found[1] + ids.setdefault(found[2], "abcdef"[len(ids) % 6] * 12),
        text,
    )
    text = re.sub(r"(?<!until )(?<!to )(?<!there )\b20\d\d-\d\d-\d\d", "2030-01-01", text)
    text = re.sub(r"\b\d+ GiB free", "60 GiB free", text)
    text = re.sub(r"((?:until|to|there) )20\d\d-\d\d-\d\d", r"\g<1>2030-01-02", text)
    text = re.sub(r"(?:\b|(?<=T))\d\d:\d\d:\d\d(?:\.\d+)?", "12:00:00", text)
    text = re.sub(r"\b(pid|process) \d+", r"\g<1> 4711", text)
    text = re.sub(r"\b\d+ s ago", "5 s ago", text)
    text = re.sub(r"\b(connected|CONNECTED|FAILS|plane) for \d+ s", r"\g<1> for 5 s", text)
    text = re.sub(r"\bsince \d+ s\b", "since 5 s", text)
    text = re.sub(r"\b(?:1 d|24 h|23 h 5\d min)\b", "23 h 59 min", text)
    text = re.sub(r"(renewal\s+in\s+)\d+ h(?: \d+ min)?", r"\g<1>11 h 59 min", text)
    return re.sub(r"\b3649 d(?: \d+ h)?", "3649 d", text).rstrip()


if __name__ == "__main__":
    main()
