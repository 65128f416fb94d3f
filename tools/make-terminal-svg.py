#!/usr/bin/env python3
"""Makes the animation of README.md from real output of piano.

usage: tools/make-terminal-svg.py FILE.svg

Copies examples/ to a temporary directory, runs the commands of SCENES there in a pseudo-terminal, and draws what they print
as an SVG that plays by CSS alone: the scenes one after the other, without end. Lines that a scene does not ask for are
replaced by `...`, and long lines are cut. Where animations are off, the picture shows the first scene.

PIANO names the tool; build/piano by default. What other programs do is in the times: run it on a quiet machine, or let
RUN_WITH go before each command (`RUN_WITH="chrt -r 5"`, as root).
"""
import html
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from struct import pack
from termios import TIOCSWINSZ

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 92, 20
CELL_W, CELL_H, PAD, BAR = 8.4, 18, 16, 34
TYPED_S, LINE_S, ANSWER_S, HOLD_S = 0.035, 0.07, 0.6, 6.0
SGR = re.compile(r"\x1b\[([\d;]*)m")
STYLES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y"}
CSS = """text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d7dae0;white-space:pre}
.b{font-weight:bold;fill:#fff}.d{fill:#7d8590}.r{fill:#ff7b72}.g{fill:#7ee787}.y{fill:#e3b341}.p{fill:#7ee787}
.t{fill:#d7dae0;font-weight:bold}.h{fill:#e3b341;opacity:.22}.c{fill:#e3b341;font-weight:bold}
@media (prefers-reduced-motion:reduce){*{animation:none!important}}"""


@dataclass
class Scene:
    title: str
    place: str                      # a directory of examples/
    setup: list[str]                # commands that are not shown
    steps: list[tuple[str, str]]    # a command, and what its lines have to match to be shown
    answer: str                     # the lines to mark
    caption: str


SCENES = [
    Scene("1  A frame stutters: which function?", "game", ["piano build --fn run_frame --fn asset_ --fn physics --fn draw_ --fn grid_"],
          [("piano profile --fn run_frame --fn asset_ --fn physics --fn draw_ --fn grid_",
            r"^Function|^---|^physics_step|^draw_sprite|^asset_load|^300 frames of"),
           ("piano report --frames --top 2", r"^Frame|^---|^ +\d|^  \.\.\.")],
          r"<- spike", "In the slow frames asset_load ran. In their neighbours it did not."),
    Scene("2  A server grows: who keeps the memory?", "store", ["make -s"],
          [("piano record --heap=64K ./store 120000", r"requests served|^piano: rec"),
           ("piano report --growth", r"^Live|^Allocated|^Freed|^Peak|^From|^Site|^---|grows|flat")],
          r"\bgrows\b", "audit_append, at line 64 of store.c, keeps every request."),
    Scene("3  A server answers late: what did it do?", "store", [],
          [("piano record --events --cpu=499 ./store 120000", r"requests served"),
           ("piano report --polls --top 1", r"^Red|^!|^Polls by|^Task|^epoll|^Longest|^  1\.|   CPU|   all of it|% in ")],
          r"all of it in|% in ", "compact sorts everything while every client waits."),
]


def run(command: str, place: Path, env: dict[str, str]) -> list[str]:
    """The lines that COMMAND prints on a terminal, with their colours."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, pack("HHHH", ROWS, COLUMNS, 0, 0))
    prefix = os.environ.get("RUN_WITH", "").split()
    if prefix:
        time.sleep(1)  # the kernel gives real-time programs 950 ms of each second
    process = subprocess.Popen(prefix + command.split(), cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        text += part
    os.close(ours)
    if process.wait() != 0:
        raise SystemExit(f"{command}: exit status {process.returncode}\n{text.decode('utf-8', 'replace')}")
    lines = text.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    return [re.sub(r"\x1b\[[\d;]*[A-LN-Za-ln-z]", "", line.split("\r")[-1]) for line in lines]


def plain(line: str) -> str:
    return SGR.sub("", line)


def chosen(lines: list[str], pattern: str) -> list[str]:
    """The lines that match, with `...` for those left out in between."""
    result, is_gap, style = [], False, ""
    for line in lines:
        whole, codes = style + line, SGR.findall(line)
        style = f"\x1b[{codes[-1]}m" if codes and codes[-1] not in ("", "0") else "" if codes else style
        if re.search(pattern, plain(line)):
            if is_gap and result and plain(result[-1]).strip() != "..." and plain(line).strip() != "...":
                result.append("\x1b[2m...\x1b[0m")
            result.append(whole)
            is_gap = False
        elif plain(line).strip(" -"):
            is_gap = True
    return result


def spans(line: str) -> str:
    """LINE as text of SVG, cut to the width of the terminal."""
    result, style, left = "", "", COLUMNS
    for index, part in enumerate(SGR.split(line)):
        if index % 2:
            style = STYLES.get(part.split(";")[-1], "")
        elif part:
            if len(part) > left:
                part = part[:left - 1] + "…" if left else ""
            left -= len(part)
            text = html.escape(part, quote=False)
            result += f'<tspan class="{style}">{text}</tspan>' if style else text
    return result


class Player:
    """Elements that appear and disappear at their times."""

    def __init__(self) -> None:
        self.now, self.items = 0.0, []  # (body, from, scene)
        self.ends: list[float] = []

    def add(self, body: str) -> None:
        self.items.append((body, self.now, len(self.ends)))

    def text(self, row: float, content: str, kind: str = "") -> None:
        y = BAR + PAD + CELL_H * row + 13
        self.add(f'<text x="{PAD}" y="{y:g}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{content}</text>')

    def scene(self, scene: Scene, outputs: list[tuple[str, list[str]]]) -> None:
        self.text(-1.75, html.escape(scene.title), "t")
        row, marked = 0, []
        for command, lines in outputs:
            self.text(row, f'<tspan class="p">$</tspan> {html.escape(command)}', "b")
            self.now += 0.4 + TYPED_S * len(command)
            row += 1
            for line in lines[:ROWS - row]:
                self.text(row, spans(line))
                marked += [row] if re.search(scene.answer, plain(line)) else []
                self.now += LINE_S
                row += 1
            row += 1
            self.now += 0.8
        if not marked:
            raise SystemExit(f"{scene.title}: nothing that was printed matches {scene.answer!r}")
        self.now += ANSWER_S
        for at in marked:
            self.add(f'<rect class="h" x="{PAD - 6}" y="{BAR + PAD + CELL_H * at - 1:g}" width="{COLUMNS * CELL_W + 12:g}" '
                     f'height="{CELL_H}" rx="3"/>')
        self.text(ROWS + 0.3, html.escape(scene.caption), "c")
        self.now += HOLD_S
        self.ends.append(self.now)

    def svg(self) -> str:
        width, height = COLUMNS * CELL_W + 2 * PAD, BAR + PAD * 2 + CELL_H * (ROWS + 1.3)
        names: dict[tuple[float, int], str] = {}
        body = []
        for element, start, scene in self.items:
            name = names.setdefault((start, scene), f"k{len(names)}")
            hidden = "" if scene == 0 else ' opacity="0"'
            body.append(f'<g{hidden} style="animation:{name} {self.now:.2f}s step-end infinite">{element}</g>')
        frames = []
        for (start, scene), name in names.items():
            begin, end = 100 * start / self.now, 100 * self.ends[scene] / self.now
            before = "" if start == 0 else "0%{opacity:0}"
            after = "" if scene == len(self.ends) - 1 else f"{end:.3f}%{{opacity:0}}"
            frames.append(f"@keyframes {name}{{{before}{begin:.3f}%{{opacity:1}}{after or '100%{opacity:1}'}}}")
        dots = "".join(f'<circle cx="{width - 20 - 18 * i:g}" cy="{BAR / 2:g}" r="5" fill="#3d444d"/>' for i in range(3))
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">\n'
                "<title>piano finds a stutter, a leak and a long poll</title>\n"
                f"<style>{CSS}\n{chr(10).join(frames)}</style>\n"
                f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/><rect width="100%" height="{BAR}" rx="8" fill="#161b22"/>{dots}\n'
                + "\n".join(body) + "\n</svg>\n")


def record(place: Path, env: dict[str, str]) -> str:
    player = Player()
    for scene in SCENES:
        there = place / scene.place
        for command in scene.setup:
            run(command, there, env)
        player.scene(scene, [(command, chosen(run(command, there, env), keep)) for command, keep in scene.steps])
    return player.svg()


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    tool = Path(os.environ.get("PIANO", ROOT / "build" / "piano")).resolve()
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "PIANO_RUNS_DIR", "MAKEFLAGS", "MAKELEVEL")}
    env.update(PATH=f"{tool.parent}:{env['PATH']}", TERM="xterm-256color", LC_ALL="C.UTF-8")
    with tempfile.TemporaryDirectory() as place:
        for name in {scene.place for scene in SCENES}:
            shutil.copytree(ROOT / "examples" / name, Path(place, name), ignore=shutil.ignore_patterns(".piano", "*.o", name))
        Path(sys.argv[1]).write_text(record(Path(place), env))
    return 0


if __name__ == "__main__":
    sys.exit(main())
