# /// script
# dependencies = ["pillow>=11", "pyte>=0.8.2"]
# ///
"""Take the pictures of docs/screens: what the commands show in a terminal.

    python tools/terminal_pictures.py                                  # those of this checkout
    python tools/terminal_pictures.py --checkout ../old --before       # of another, to compare

It needs Pillow, pyte and the DejaVu fonts. The example `bookshop` runs in a terminal of its own,
and the commands ask it from others. Each screen becomes a picture in dark colours and one in light
ones.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte
from PIL import Image, ImageColor, ImageDraw, ImageFont

ROOT = Path(__file__).parents[1]
SMALL, LARGE = (80, 24), (200, 50)
LONGEST_S = 120.0
SETTLE_S = 2.0
"""How long a screen is left to come to rest."""
QUIET_S = 0.1
STEPS = 8
"""Between the paper and full ink, at the edges of letters."""
MISTAKEN_RULE = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: mistaken, namespace: shop}
spec: {hosts: page}
"""
FONTS = Path("/usr/share/fonts/truetype/dejavu")
FONT_PX = 14
MARGIN_PX = 10
THEMES = {
    "dark": {
        "default": "#d4d4d4", "back": "#1e1e1e", "dim": "#8a8a8a",
        "black": "#000000", "red": "#f14c4c", "green": "#23d18b", "brown": "#e5e510",
        "blue": "#3b8eea", "magenta": "#d670d6", "cyan": "#29b8db", "white": "#e5e5e5",
    },
    "light": {
        "default": "#333333", "back": "#ffffff", "dim": "#8a8a8a",
        "black": "#000000", "red": "#cd3131", "green": "#107c10", "brown": "#949800",
        "blue": "#0451a5", "magenta": "#bc05bc", "cyan": "#0598bc", "white": "#555555",
    },
}  # fmt: skip
"""The colours of a common editor's terminal, by the names that pyte gives them."""


class Screen(pyte.Screen):  # type: ignore[misc]  # pyte ships no types
    """A screen that remembers which cells are faint, which pyte does not."""

    def __init__(self, columns: int, lines: int) -> None:
        self.faint: set[tuple[int, int]] = set()
        self._is_faint = False
        super().__init__(columns, lines)

    def select_graphic_rendition(self, *codes: int, **options: bool) -> None:
        if not codes or 0 in codes or 22 in codes:
            self._is_faint = False
        if 2 in codes:
            self._is_faint = True
        super().select_graphic_rendition(*codes, **options)

    def draw(self, data: str) -> None:
        for character in data:
            before = (self.cursor.y, self.cursor.x)
            super().draw(character)
            at = (self.cursor.y, self.cursor.x - 1) if self.cursor.x else before
            (self.faint.add if self._is_faint else self.faint.discard)(at)


class Terminal:
    """A terminal in which one command runs."""

    def __init__(self, size: tuple[int, int], pid: int, descriptor: int) -> None:
        self.screen = Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self._pid = pid
        self._descriptor = descriptor

    def write(self, text: str) -> None:
        """Show a text as if the command had written it."""
        self._stream.feed(text.encode())

    def read(self, *, until: Callable[[str], object], settle_s: float) -> None:
        """Show what the command writes, until it has ended, or some time after the condition."""
        deadline, found = time.monotonic() + LONGEST_S, False
        while True:
            if select.select([self._descriptor], [], [], QUIET_S)[0]:
                try:
                    self._stream.feed(os.read(self._descriptor, 65536))
                except OSError:  # the command has ended
                    return
            elif time.monotonic() > deadline:  # and not while it draws
                break
            if not found and until(self.text):
                found, deadline = True, time.monotonic() + settle_s
        if not found:
            sys.exit(f"what was awaited is not on the screen:\n{self.text}")

    def stop(self) -> None:
        """Press Ctrl-C, and wait for the end of the command."""
        os.kill(self._pid, signal.SIGINT)
        try:
            while os.read(self._descriptor, 65536):
                pass
        except OSError:
            pass
        os.waitpid(self._pid, 0)
        os.close(self._descriptor)

    @property
    def text(self) -> str:
        """The screen's text."""
        return "\n".join(line.rstrip() for line in self.screen.display)


@contextmanager
def terminal(size: tuple[int, int], command: list[str], directory: Path) -> Iterator[Terminal]:
    """Run a command in a terminal of this size, in columns and lines, while the block runs."""
    pid, descriptor = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        os.chdir(directory)
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    running = Terminal(size, pid, descriptor)
    try:
        yield running
    finally:
        running.stop()


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkout", type=Path, default=ROOT, help="whose .venv has the commands")
    parser.add_argument("--before", action="store_true", help="few pictures, named NAME-before")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs/screens", help="where they go")
    wanted = parser.parse_args()
    commands = wanted.checkout.absolute() / ".venv/bin"
    os.environ["PATH"] = f"{commands}{os.pathsep}{os.environ['PATH']}"
    for variable in ("COLUMNS", "LINES", "NO_COLOR"):
        os.environ.pop(variable, None)
    wanted.folder.mkdir(parents=True, exist_ok=True)
    ending = "-before" if wanted.before else ""
    for size in (SMALL,) if wanted.before else (SMALL, LARGE):
        with tempfile.TemporaryDirectory() as folder:
            example = Path(folder, "bookshop")
            shutil.copytree(
                wanted.checkout / "examples/bookshop",
                example,
                ignore=shutil.ignore_patterns(".mesh-local"),
            )
            take(size, example, wanted.folder, ending, trouble=not wanted.before)


def take(size: tuple[int, int], example: Path, folder: Path, ending: str, *, trouble: bool) -> None:
    """Take the pictures of one size."""
    name_of_size = f"{ending}-{size[0]}x{size[1]}"
    with terminal(size, ["mesh-local", "up", "mesh.yaml"], example) as mesh:
        mesh.read(until=all_ready, settle_s=SETTLE_S)
        save(mesh.screen, folder / f"mesh-local{name_of_size}")
        # An older screen has no address within 24 lines; the first mesh of a machine has block 64.
        block = re.search(r"http://127\.(\d+)\.\d+\.2:", mesh.text)
        address = f"127.{block[1] if block else 64}"
        for name, command in (
            ("mesh-agent-status", f"mesh-agent status --address {address}.2.1"),
            ("mesh-agent-doctor", f"mesh-agent doctor --address {address}.2.1"),
            (
                "mesh-discovery-status",
                f"mesh-discovery status --monitoringAddr {address}.0.1:15014",
            ),
        ):
            with terminal(size, command.split(), example) as other:
                other.write(f"$ {command}\r\n")
                other.read(until=lambda _: False, settle_s=0)
                save(other.screen, folder / f"{name}{name_of_size}")
        if trouble:
            (example / "rules/mistaken.yaml").write_text(MISTAKEN_RULE)
            mesh.read(until=lambda text: "mistaken.yaml:4" in text, settle_s=SETTLE_S)
            save(mesh.screen, folder / f"mesh-local-mistake{name_of_size}")


def all_ready(text: str) -> bool:
    """Return whether a screen of `mesh-local up` tells that all is ready; an older one in rows."""
    return "8 of 8 ready" in text or len(re.findall(r"connected +ready", text)) == 8


def save(screen: Screen, name: Path) -> None:
    """Draw a screen in each theme."""
    for theme in THEMES:
        path = name.with_name(f"{name.name}-{theme}.png")
        picture(screen, theme).save(path, optimize=True)
        print(path)


def picture(screen: Screen, theme: str) -> Image.Image:
    """Draw a screen."""
    colours = THEMES[theme]
    plain, bold = (
        ImageFont.truetype(str(FONTS / name), FONT_PX)
        for name in ("DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf")
    )
    width, height = round(plain.getlength("M")), FONT_PX + 4
    image = Image.new(
        "RGB",
        (screen.columns * width + 2 * MARGIN_PX, screen.lines * height + 2 * MARGIN_PX),
        colours["back"],
    )
    draw = ImageDraw.Draw(image)
    for y in range(screen.lines):
        for x in range(screen.columns):
            cell = screen.buffer[y][x]
            ink, back = colour(cell.fg, colours, "default"), colour(cell.bg, colours, "back")
            if (y, x) in screen.faint and cell.fg == "default":
                ink = colours["dim"]
            if cell.reverse:
                ink, back = back, ink
            at = (MARGIN_PX + x * width, MARGIN_PX + y * height)
            if back != colours["back"]:
                draw.rectangle((*at, at[0] + width - 1, at[1] + height - 1), fill=back)
            draw.text((at[0], at[1] + 1), cell.data, fill=ink, font=bold if cell.bold else plain)
            if cell.underscore:
                under = at[1] + height - 2
                draw.line((at[0], under, at[0] + width - 1, under), fill=ink)
    return image.quantize(palette=palette(theme), dither=Image.Dither.NONE)


def palette(theme: str) -> Image.Image:
    """Return the colours of a theme, and what smooth letters have between them and the paper."""
    paper, *inks = (ImageColor.getrgb(THEMES[theme][name]) for name in ("back", *THEMES[theme]))
    blends = [
        round(one + (other - one) * step / STEPS)
        for ink in inks
        for step in range(1, STEPS + 1)
        for one, other in zip(paper[:3], ink[:3], strict=True)
    ]
    image = Image.new("P", (1, 1))
    image.putpalette([*paper[:3], *blends])
    return image


def colour(name: str, colours: dict[str, str], default: str) -> str:
    """Return a colour of pyte's: one of its names, or hexadecimal digits."""
    if name == "default":
        return colours[default]
    name = name.removeprefix("bright")
    return colours.get(name, f"#{name}")


if __name__ == "__main__":
    main()
