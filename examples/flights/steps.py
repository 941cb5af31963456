"""How the demo speaks: numbered steps and how long they took, commands as they are typed, checks that end it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table

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
    """Shown as it changes, and as it is at the end."""
    with Live(of, console=console, refresh_per_second=12):
        yield
    if not console.is_terminal:
        console.line()


def check(words: str, found: object, wanted: object) -> None:
    """Say that it is so, or end the demo."""
    if found != wanted:
        sys.exit(f"  ✗ {words}: found {found}, not {wanted}")
    say(f"[green]✓[/green] {words}")


def tidelog_command(*arguments: object) -> None:
    words = [str(word) for word in arguments]
    say(f"[bold cyan]$ tidelog {' '.join(words)}")
    # verify says what it finds by exit code 1; anything worse ends the demo.
    code = subprocess.run([sys.executable, "-m", "tidelog", *words]).returncode
    if code not in (0, 1):
        sys.exit(code)


def print_timings() -> None:
    table = Table("step", "seconds", title="how long each step took")
    for title, took in timings:
        table.add_row(title, f"{took:.1f}")
    table.add_row("[bold]all", f"[bold]{sum(took for _, took in timings):.1f}")
    console.print(table)
