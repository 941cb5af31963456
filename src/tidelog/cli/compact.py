"""``tidelog compact``: prints a plan with a row for each log, and with ``--apply`` carries it out."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from tidelog.cli.applying import apply_to_each, warn_of_space, with_progress
from tidelog.cli.compact_report import done_report, plan_report
from tidelog.cli.options import output_options, selection, threads_option
from tidelog.cli.progress import progress
from tidelog.cli.report import ExitCode, Report
from tidelog.cli.setting_options import due_options, properties, topic_settings
from tidelog.cli.targets import Target, each_target, select_on_disk
from tidelog.cli.zookeeper_options import read_topic_settings, settings_from_zookeeper
from tidelog.config.broker_keys import BROKER_KEYS
from tidelog.runtime.progress import ProgressListener
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.compact.compact import CompactResult, compact_directory, compact_into
from tidelog.storage.manager.compact.compact_plan import CompactOptions, CompactPlan, check_logs, plan_compaction
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.manager.survey.setting_sources import SettingSources, read_setting_sources

_BUFFER_KEY = "log.cleaner.dedupe.buffer.size"
_RATIO_KEY = "min.cleanable.dirty.ratio"


@click.command()
@selection
@click.option("--plan", "is_planned", is_flag=True, help="Print the plan and change nothing. This is the default.")
@click.option("--apply", "is_applied", is_flag=True, help="Apply the plan. Without this option, nothing is changed.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR2",
    help="With --apply: leave the directory unchanged and write a compacted copy of it.",
)
@settings_from_zookeeper
@due_options
@threads_option
@output_options
def compact(
    arguments: Sequence[str],
    topics: Sequence[str],
    is_planned: bool,
    is_applied: bool,
    output: Path | None,
    is_all: bool,
    min_dirty_ratio: float | None,
    no_check: bool,
    zookeeper: str | None,
    zookeeper_config: Path | None,
    settings: Sequence[str],
    config_file: Path | None,
    threads: int | None,
) -> Report:
    """Compact logs without a broker, or show which of them are due.

    For every log with compact in its cleanup.policy, the plan shows the range that Kafka's cleaner would clean, the
    dirty part, and why the log is due or not. Logs that are due are read to the end of that range. A batch that would
    stop the cleaner is named with its file, position and offset. So are records without a key, which the cleaner drops.
    Planning changes nothing, and also works while a broker runs.

    With --apply, logs that are due are cleaned as Kafka's cleaner does it, one log a core. No broker may have the
    directories open, and they must have had a clean shutdown; otherwise recover them first. Each log is replaced in one
    step when its copy is complete. After Ctrl-C or a kill, it is either unchanged or compacted.

    Settings come from the cluster metadata if a given directory has it, or with --zookeeper from there. Otherwise they
    are Kafka's defaults, under which only internal topics are compacted. The options --topic-config and --config-file
    set other values, also the memory for keys (log.cleaner.dedupe.buffer.size).

    Exit codes: 0 planned or compacted, 1 a log that is due cannot be cleaned, 2 wrong usage, 3 a partition or directory
    cannot be read, is held, or had an unclean shutdown.

    \b
    Examples:
      tidelog compact /var/lib/kafka
      tidelog compact '/mnt/disk*/kafka' --all --no-check --csv
      tidelog compact /var/lib/kafka --topic customers --min-dirty-ratio 0.1 --apply
      tidelog compact /var/lib/kafka --all --apply --output /backup/kafka
    """
    if is_planned and is_applied:
        raise click.UsageError("--plan and --apply exclude each other.")
    if output is not None and not is_applied:
        raise click.UsageError("--output needs --apply.")
    exit_code = ExitCode()
    targets = select_on_disk(arguments, topics, exit_code)
    overrides = _overrides(is_all=is_all, min_dirty_ratio=min_dirty_ratio)
    elsewhere = read_topic_settings(zookeeper, zookeeper_config, [target.path for target in targets])
    given, file = topic_settings(settings), properties(config_file)
    options = _options(targets, overrides, given, file, config_file, threads, elsewhere)
    if is_applied:
        if output is not None and len(targets) != 1:
            raise click.UsageError("--output takes one directory at a time.")
        results = apply_to_each(targets, lambda target: _apply(target, options[target.path], output), exit_code)
        return done_report(results, exit_code)
    plans = [plan for _, plan in each_target(targets, lambda target: _plan(target, options[target.path]), exit_code)]
    if not no_check:
        plans = [_checked(plan, threads) for plan in plans]
    return plan_report(plans, {path: of.sources for path, of in options.items()}, exit_code)


def _overrides(*, is_all: bool, min_dirty_ratio: float | None) -> Mapping[str, str]:
    if is_all and min_dirty_ratio is not None:
        raise click.UsageError("--all and --min-dirty-ratio exclude each other.")
    if is_all:
        return {_RATIO_KEY: "0"}
    return {} if min_dirty_ratio is None else {_RATIO_KEY: str(min_dirty_ratio)}


def _options(
    targets: Sequence[Target],
    overrides: Mapping[str, str],
    topic_overrides: Mapping[str, Mapping[str, str]],
    file: Mapping[str, str],
    config_file: Path | None,
    threads: int | None,
    elsewhere: TopicMetadata | None,
) -> dict[Path, CompactOptions]:
    """Return the options by log directory. Raise ConfigError for invalid values before any log is read."""
    for topic in ("", *topic_overrides):
        SettingSources(file=file, overrides=overrides, topic_overrides=topic_overrides).of_topic(topic)
    sources = read_setting_sources(
        LOCAL,
        [target.path for target in targets],
        file=file,
        file_name="" if config_file is None else config_file.name,
        overrides=overrides,
        topic_overrides=topic_overrides,
        elsewhere=elsewhere,
    )
    buffer = {"dedupe_buffer_bytes": BROKER_KEYS[_BUFFER_KEY].parse(file[_BUFFER_KEY])} if _BUFFER_KEY in file else {}
    cleaner = CleanerSettings(**buffer)  # type: ignore[arg-type]
    return {
        path: CompactOptions(sources=of_path, cleaner=cleaner, threads=threads) for path, of_path in sources.items()
    }


def _plan(target: Target, options: CompactOptions) -> CompactPlan:
    return plan_compaction(LOCAL, target.path, options, only=target.only)


def _checked(plan: CompactPlan, threads: int | None) -> CompactPlan:
    with progress(f"Checking {plan.path.name}", plan.bytes_to_clean) as advance:
        try:
            return check_logs(LOCAL, plan, threads=threads, advance=advance)
        except KeyboardInterrupt:
            advance.cancel()
            raise


def _apply(target: Target, options: CompactOptions, output: Path | None) -> CompactResult:
    plan = _plan(target, options)
    where = target.path if output is None else output.absolute().parent
    warn_of_space(where, plan.free_bytes_needed if output is None else target.log_bytes())

    run = compact_directory if output is None else partial(compact_into, output=output)

    def compact_now(on_progress: ProgressListener, cancelled: threading.Event) -> CompactResult:
        return run(LOCAL, target.path, options, only=target.only, on_progress=on_progress, cancelled=cancelled)

    return with_progress(
        f"Compacting {target.path.name}",
        plan.work_bytes,
        compact_now,
        interrupted="finished logs are compacted, and the others are unchanged."
        if output is None
        else "the unfinished copy was removed.",
    )
