"""``tidelog snapshot``: prints a plan for a copy as of a time, and with ``--apply`` writes it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import click

from tidelog.cli.applying import warn_of_space, with_progress
from tidelog.cli.options import output_options, threads_option
from tidelog.cli.progress import progress
from tidelog.cli.report import UNREADABLE, ExitCode, Report
from tidelog.cli.snapshot_report import done_report, plan_report
from tidelog.inspect.bounds import BoundKind, parse_time
from tidelog.model import ConfigError
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.runtime.progress import ProgressListener
from tidelog.storage.fs import LOCAL, is_url
from tidelog.storage.manager.snapshot.offsets_file import parse_offsets
from tidelog.storage.manager.snapshot.open_transactions import OpenTransactionPolicy
from tidelog.storage.manager.snapshot.partition_end import Moment
from tidelog.storage.manager.snapshot.snapshot import SnapshotResult, take_snapshot
from tidelog.storage.manager.snapshot.snapshot_plan import (
    SnapshotOptions,
    SnapshotPaths,
    SnapshotPlan,
    nearest_directory,
    plan_snapshot,
)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="DIR DEST [DIR DEST]...")
@click.option(
    "--at",
    "at",
    metavar="TIME",
    help="The time: now, ms since 1970, or a date and time (UTC unless it says otherwise). A partition ends at its"
    " first record with a later timestamp.",
)
@click.option(
    "--at-offsets",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="JSON with the end of each partition, such as the output of tidelog offsets --json. Other partitions end by"
    " --at, or are whole without it.",
)
@click.option(
    "--open-transactions",
    "policy",
    type=click.Choice([policy.value for policy in OpenTransactionPolicy]),
    default=OpenTransactionPolicy.ABORT.value,
    show_default=True,
    help="abort writes the markers that end transactions open at that time. keep leaves them open.",
)
@click.option("--copy", "is_copied", is_flag=True, help="Copy every file. Without this option, sealed logs are linked.")
@click.option("--apply", "is_applied", is_flag=True, help="Apply the plan. Without this option, nothing is written.")
@threads_option
@output_options
def snapshot(
    paths: Sequence[str],
    at: str | None,
    at_offsets: Path | None,
    policy: str,
    is_copied: bool,
    is_applied: bool,
    threads: int | None,
) -> Report:
    """Copy log directories as of a time, mostly by hard links.

    DEST becomes a log directory after a clean shutdown, on which Kafka and tidelog serve start. Each partition has its
    records before the first one with a later timestamp. A batch with that record inside is rebuilt. Groups have their
    committed offsets of the time. Topics and settings are those of now.

    Logs that no broker writes to any longer are hard links, which take no space. Everything else is copied: the end of
    each partition, indexes, and all files if DEST is on another disk. DIR is only read, also while a broker runs or
    after an unclean shutdown. No byte of it changes.

    For several log directories of one broker, name each with a DEST of its own, best on the same disk. The plan shows
    for each topic which bytes are linked and copied, and the transactions that are open.

    Exit codes: 0 planned or done, 2 wrong usage, 3 a partition or directory cannot be read, or DEST exists.

    \b
    Examples:
      tidelog snapshot /var/lib/kafka /var/lib/kafka-noon --at 2026-05-01T12:00
      tidelog snapshot /var/lib/kafka /var/lib/kafka-now --at now --apply
      tidelog snapshot /disk1/kafka /disk1/copy /disk2/kafka /disk2/copy --at 2026-05-01T12:00Z --apply
      tidelog snapshot /var/lib/kafka /backup/kafka --at-offsets ends.json --open-transactions keep --apply
    """
    pairs = _pairs(paths)
    now_ms = SYSTEM_CLOCK.now_ms()
    if at is None and at_offsets is None:
        raise click.UsageError("Name the moment with --at or --at-offsets.")
    moment = Moment(
        at_ms=None if at is None else _time(at, now_ms),
        at_offsets={} if at_offsets is None else parse_offsets(at_offsets.read_text(encoding="utf-8")),
    )
    options = SnapshotOptions(
        moment=moment, now_ms=now_ms, policy=OpenTransactionPolicy(policy), links=not is_copied, threads=threads
    )
    exit_code = ExitCode()
    plan = _plan(pairs, options)
    if plan.errors:
        exit_code.at_least(UNREADABLE)
    if not is_applied or plan.errors:
        return plan_report(plan, exit_code, is_refused=is_applied)
    for directory in plan.directories:
        warn_of_space(nearest_directory(LOCAL, directory.paths.target), directory.copied_bytes)
    return done_report(LOCAL, _apply(pairs, options, plan), exit_code)


def _pairs(paths: Sequence[str]) -> list[SnapshotPaths]:
    if len(paths) % 2:
        raise click.UsageError("Name a DEST for each DIR: DIR DEST [DIR DEST]...")
    if any(map(is_url, paths)):
        raise click.UsageError("A snapshot needs disks: object storage has no links and no renames.")
    pairs = [
        SnapshotPaths(source=Path(source), target=Path(target))
        for source, target in zip(paths[::2], paths[1::2], strict=True)
    ]
    for name, places in (("DIR", [pair.source for pair in pairs]), ("DEST", [pair.target for pair in pairs])):
        if len({place.absolute() for place in places}) < len(places):
            raise click.UsageError(f"A {name} is named twice.")
    return pairs


def _time(text: str, now_ms: int) -> int:
    if text == "now":
        return now_ms
    bound = parse_time(text)
    if bound.kind is not BoundKind.TIMESTAMP:
        raise ConfigError(f"--at needs a time, not {text!r}")
    return bound.number


def _plan(pairs: Sequence[SnapshotPaths], options: SnapshotOptions) -> SnapshotPlan:
    with progress("Planning", None) as advance:
        try:
            return plan_snapshot(LOCAL, pairs, options, advance=advance)
        except KeyboardInterrupt:
            advance.cancel()
            raise


def _apply(pairs: Sequence[SnapshotPaths], options: SnapshotOptions, plan: SnapshotPlan) -> SnapshotResult:
    def snapshot_now(on_progress: ProgressListener, cancelled: threading.Event) -> SnapshotResult:
        return take_snapshot(LOCAL, pairs, options, on_progress=on_progress, cancelled=cancelled)

    return with_progress(
        f"Copying to {pairs[0].target.name}",
        plan.work_bytes,
        snapshot_now,
        interrupted="the unfinished snapshot was removed.",
    )
