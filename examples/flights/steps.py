"""The output of the demo: numbered steps with their duration, commands as they are typed, checks that end it."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

console = Console(highlight=False)
timings: list[tuple[str, float]] = []


@contextmanager
def step(title: str) -> Iterator[None]:
    console.rule(f"[bold]{len(timings) + 1}. {title}", align="left")
    began = time.perf_counter()
    yield
    took = time.perf_counter() - began
    timings.append((title, took))
    console.print(f"  [dim]{took:.1f} s[/dim]\n")


def say(words: str) -> None:
    console.print(f"  {words}", soft_wrap=True)


@contextmanager
def picture(of: RenderableType) -> Iterator[None]:
    """Show ``of`` as it changes, and its final state."""
    with Live(of, console=console, refresh_per_second=12):
        yield
    if not console.is_terminal:
        console.line()


def check(words: str, found: object, wanted: object) -> None:
    """Print that ``found`` equals ``wanted``, or end the demo."""
    if found != wanted:
        sys.exit(f"  ✗ {words}: found {found}, not {wanted}")
    say(f"[green]✓[/green] {words}")


def tidelog_command(*arguments: object) -> None:
    words = [str(word) for word in arguments]
    say(f"[bold cyan]$ tidelog {' '.join(words)}")
    command = [sys.executable, "-m", "tidelog", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE if console.record else None, text=True)
    if done.returncode not in (0, 1):  # verify has exit code 1 if it finds something
        sys.exit(done.returncode)
    if console.record:
        console.print(Text(done.stdout.strip().splitlines()[-1], "dim"), soft_wrap=True)


def record(width: int) -> None:
    """Record the output for ``save_picture``. Only the last line of a command's own output is recorded."""
    console.record, console.width = True, width


def save_picture(path: Path) -> None:
    """Write the recorded output as SVG. It names no font of another host, so the reader's monospaced font appears."""
    picture = console.export_svg(title="make demo", unique_id="demo")
    picture = re.sub(r"@font-face \{.*?\}\n|<!--.*?-->\n", "", picture, flags=re.DOTALL)
    path.write_text("".join(line.strip() + "\n" for line in picture.splitlines() if line.strip()))


def print_timings() -> None:
    table = Table("step", "seconds", title="how long each step took")
    for title, took in timings:
        table.add_row(title, f"{took:.1f}")
    table.add_row("[bold]all", f"[bold]{sum(took for _, took in timings):.1f}")
    console.print(table)
