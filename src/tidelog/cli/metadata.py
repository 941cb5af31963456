"""``tidelog metadata``: a row for each topic, partition, setting and so on; a table for each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from tidelog.cli.options import expand, output_options
from tidelog.cli.report import ExitCode, Report, Row, Table
from tidelog.cli.targets import Target, each_target
from tidelog.model import DirectoryError
from tidelog.server.metadata.kraft.metadata_rows import KINDS, metadata_rows
from tidelog.server.metadata.kraft.metadata_view import MetadataView, read_metadata
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties, uuid_to_text
from tidelog.storage.fs import BY_PATH
from tidelog.storage.log.view.partitions import require_log_directory

_NAMES = {
    "quorum": "voter",
    "config": "resource",
    "acl": "principal",
    "newer": "record",
    "quota": "entity",
}
"""The column title for the names of a kind, if it is not the kind itself."""
_TITLES = {"quorum": "quorum", "newer": "records of a later release"}
_NOT_SHOWN = frozenset({"entity", "topic", "partition"})
"""Fields that repeat parts of the name."""
_OFTEN_EMPTY = frozenset({"adding", "elr", "rack", "release", "removing"})
"""Fields that are columns only if a row has a value."""


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--kind", "-k", "kinds", multiple=True, type=click.Choice(KINDS), help="Only rows of this kind. Repeatable."
)
@output_options
def metadata(directories: Sequence[str], kinds: Sequence[str]) -> Report:
    """Show the cluster metadata that is in a data directory.

    The output has topics and partitions with their ids, leaders and replicas. It also has settings, SCRAM users, access
    control entries, quotas, features, brokers and the quorum. The source is the newest snapshot of __cluster_metadata-0
    and the log after it. No broker is started, and nothing is written. Passwords among the settings and the keys of
    SCRAM users are not shown. Records of a later release of Kafka are shown raw (kind "newer").

    A row for programs has the kind, the name, and fields that depend on the kind.

    Exit codes: 0 shown, 2 wrong usage, 3 a directory has no cluster metadata, or it cannot be read.

    \b
    Examples:
      tidelog metadata /var/lib/kafka
      tidelog metadata /var/lib/kafka --kind topic --kind config
      tidelog metadata /var/lib/kafka --kind user --jsonl
    """
    exit_code = ExitCode()
    targets = [Target(path=path) for path in expand(directories)]
    found = each_target(targets, lambda target: _read(target), exit_code)
    rows = [row for target, view in found for row in _rows(target, view, kinds)]
    return Report(
        rows=rows,
        tables=list(_tables(rows, several=len(found) > 1)),
        notes=[_note(target, view) for target, view in found],
        exit_code=exit_code,
    )


def _read(target: Target) -> MetadataView:
    require_log_directory(BY_PATH, target.path)
    view = read_metadata(BY_PATH, target.path)
    if view is None:
        raise DirectoryError(
            "there is no cluster metadata here, neither __cluster_metadata-0 nor bootstrap.checkpoint: it is in the"
            " directory that metadata.log.dir names, or else in the first of log.dirs; a broker with ZooKeeper had"
            " none",
            path=target.path,
        )
    return view


def _rows(target: Target, view: MetadataView, kinds: Sequence[str]) -> Iterator[Row]:
    for kind, name, fields in metadata_rows(view):
        if not kinds or kind in kinds:
            yield {"directory": str(target.path), "kind": kind, "name": name, "fields": fields}


def _tables(rows: Sequence[Row], *, several: bool) -> Iterator[Table]:
    for kind in KINDS:
        shown = [_shown(kind, row) for row in rows if row["kind"] == kind]
        if shown:
            columns = [name for name in shown[0] if name not in _OFTEN_EMPTY or any(row[name] for row in shown)]
            if not several:
                columns.remove("directory")
            yield Table(rows=shown, columns=columns, title=_TITLES.get(kind, f"{kind}s"))


def _shown(kind: str, row: Row) -> Row:
    fields = row["fields"]
    assert isinstance(fields, dict)
    shown = {name: _text(value) for name, value in fields.items() if kind == "topic" or name not in _NOT_SHOWN}
    return {"directory": row["directory"], _NAMES.get(kind, kind): row["name"], **shown}


def _text(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _note(target: Target, view: MetadataView) -> str:
    properties = MetaProperties.read(BY_PATH, target.path / META_PROPERTIES_FILE)
    whose = (
        "no meta.properties" if properties is None else f"cluster {properties.cluster_id}, node {properties.node_id}"
    )
    if properties is not None and properties.directory_id is not None:
        whose += f", directory {uuid_to_text(properties.directory_id)}"
    begun = "log is empty: these are its first records" if view.is_empty else f"up to offset {view.end_offset:,}"
    count = len(view.image.skipped_records)
    newer = f" {count:,} of its records are of a later release of Kafka, and shown raw." if count else ""
    return f"{target.path}: {whose}; the metadata {begun}.{newer}"
