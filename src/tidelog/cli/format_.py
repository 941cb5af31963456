"""``tidelog format``: plans the format of new log directories, and with ``--apply`` writes it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from tidelog.cli.options import output_options
from tidelog.cli.report import Report, Row, Table
from tidelog.cli.scram_option import scram_credential
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError, DirectoryError
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.security.scram_credential import ScramMechanism
from tidelog.server.metadata.features import release_name
from tidelog.server.metadata.image import METADATA_VERSION
from tidelog.server.metadata.kraft.bootstrap_records import bootstrap_records, feature_levels
from tidelog.server.metadata.kraft.formatting import (
    FormatPlan,
    FormatRequest,
    format_directories,
    metadata_directory_of,
    plan_format,
)
from tidelog.server.metadata.kraft.quorum import controller_endpoint, static_voters
from tidelog.server.network.endpoint import is_controller
from tidelog.server.start_settings import StartSettings
from tidelog.storage.checkpoint import MetaProperties, uuid_from_text, uuid_to_text
from tidelog.storage.fs import LOCAL

COLUMNS = ("directory", "condition", "holds", "cluster_id", "node_id", "directory_id", "files")
_VOTER = re.compile(r"(?P<id>\d+)@(?P<host>\[[^\]]+\]|[^:\[\]]+):(?P<port>\d+):(?P<directory>[^:]+)")


@click.command(name="format")
@click.option(
    "--config",
    "-c",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The broker's server.properties.",
)
@click.option(
    "--cluster-id", "-t", required=True, metavar="ID", help="The cluster's id; `tidelog random-uuid` prints a new one."
)
@click.option(
    "--standalone", "-s", is_flag=True, help="Make this node the quorum's only voter, and write it into the log."
)
@click.option(
    "--initial-controllers",
    "-I",
    metavar="ID@HOST:PORT:DIRECTORY-ID",
    help="Like --standalone, with the voter's address and directory id. Only this node can be the voter.",
)
@click.option("--no-initial-controllers", "-N", is_flag=True, help="Only for a broker without the controller role.")
@click.option(
    "--release-version", "-r", "release", metavar="VERSION", help="Features of an older release, such as 4.0."
)
@click.option(
    "--feature", "-f", "features", multiple=True, metavar="NAME=LEVEL", help="The level of one feature. Repeatable."
)
@click.option(
    "--add-scram",
    "-S",
    "users",
    multiple=True,
    metavar="CREDENTIAL",
    help="A user of the new cluster: 'SCRAM-SHA-256=[name=alice,password=…]'. Repeatable.",
)
@click.option(
    "--ignore-formatted", "-g", is_flag=True, help="Leave formatted directories unchanged, and format the others."
)
@click.option("--apply", "is_applied", is_flag=True, help="Apply the plan. Without this option, nothing is written.")
@output_options
def format_(
    file: Path,
    cluster_id: str,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    release: str | None,
    features: Sequence[str],
    users: Sequence[str],
    ignore_formatted: bool,
    is_applied: bool,
) -> Report:
    """Format new log directories, with the options of kafka-storage format.

    Each gets a meta.properties file with the ids of cluster, node and directory. The metadata directory also gets a
    snapshot with the features and users of the new cluster. It includes the quorum's voter, unless the file names it in
    controller.quorum.voters. The files are those of Kafka 4.4, so either server starts on them. A broker without the
    controller role gets only the first file. Look at the plan first; with --apply the files are written.

    The command `tidelog serve` formats a new directory by itself, like --standalone. Use this command for other
    features, an id of your own, or users from the start.

    Exit codes: 0 planned or formatted, 2 wrong usage or a mistake in the file, 3 a directory is formatted already, or
    cannot be used.

    \b
    Examples:
      tidelog format --standalone -t MkU3OEVBNTcwNTJENDM2Qg -c server.properties
      tidelog format --standalone -t MkU3OEVBNTcwNTJENDM2Qg -c server.properties --apply
      tidelog format -s -t MkU3OEVBNTcwNTJENDM2Qg -c server.properties --release-version 4.0 --feature group.version=0
    """
    config = BrokerConfig.load(file)
    node_id = _node_id(config)
    has_controller = is_controller(config)
    if not has_controller and (standalone or initial_controllers or release or features or users):
        raise click.UsageError(
            "the file is of a broker alone (process.roles): voters, features and users are formatted with its"
            " controllers. Give only --cluster-id and --config."
        )
    if no_initial_controllers and has_controller:
        raise click.UsageError(
            "--no-initial-controllers formats a node that waits for a quorum of others; here a node is its own: use"
            " --standalone."
        )
    voter = _voter(config, node_id, standalone=standalone, text=initial_controllers) if has_controller else None
    levels = feature_levels(release, dict(map(_level, features)), voters_in_log=voter is not None)
    metadata_directory = metadata_directory_of(config)
    request = FormatRequest(
        node_id=node_id,
        directories=tuple(dict.fromkeys((*map(Path, config.log_dirs), metadata_directory))),
        metadata_directory=metadata_directory,
        controller=None if voter is None else voter[0],
        cluster_id=cluster_id,
        first_records=bootstrap_records(levels, [scram_credential(text) for text in users]),
        directory_ids={} if voter is None or voter[1] is None else {metadata_directory: voter[1]},
        is_controller=has_controller,
    )
    plan = plan_format(LOCAL, request)
    if plan.formatted and not ignore_formatted:
        raise DirectoryError(
            "the log directory is already formatted; --ignore-formatted leaves it and formats the others",
            path=next(iter(plan.formatted)),
        )
    written = format_directories(LOCAL, request, SYSTEM_CLOCK) if is_applied else plan.formatted
    rows = [_row(request, plan, path, written.get(path)) for path in request.directories]
    return Report(
        rows=rows,
        tables=[Table(rows=rows, columns=COLUMNS, show={"files": ", ".join})],
        notes=list(_notes(request, levels, is_applied=is_applied)),
    )


def _node_id(config: BrokerConfig) -> int:
    """Return the node's id. Raise UsageError for a broker with ZooKeeper, and ConfigError with every mistake."""
    node_id = StartSettings.of(config).node_id
    if config.uses_zookeeper or node_id is None:
        raise click.UsageError(
            "the file is of a broker with ZooKeeper (zookeeper.connect without process.roles), which formats its log"
            " directories itself: run tidelog serve"
        )
    return node_id


def _voter(
    config: BrokerConfig, node_id: int, *, standalone: bool, text: str | None
) -> tuple[BrokerEndpoint, uuid.UUID | None] | None:
    """Return the voter for the metadata log and its directory's id, or None if the file names the voters."""
    if standalone and text is not None:
        raise click.UsageError("--standalone and --initial-controllers exclude each other.")
    if (standalone or text is not None) and static_voters(config) is not None:
        raise ConfigError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or"
            " --standalone: to keep the voters in the log, remove controller.quorum.voters from the file and set"
            " controller.quorum.bootstrap.servers"
        )
    if text is not None:
        return _named_voter(text, node_id, controller_endpoint(config).name)
    if standalone:
        return controller_endpoint(config), None
    if static_voters(config) is None:
        raise ConfigError(
            "the metadata quorum has no voter: add --standalone (or --initial-controllers), or set"
            " controller.quorum.voters in the file"
        )
    return None


def _named_voter(text: str, node_id: int, listener: str) -> tuple[BrokerEndpoint, uuid.UUID]:
    voters = [part.strip() for part in text.split(",") if part.strip()]
    if len(voters) != 1:
        raise ConfigError(f"--initial-controllers: this node must be the only controller, but {len(voters)} are named")
    match = _VOTER.fullmatch(voters[0])
    if match is None:
        raise ConfigError(f"--initial-controllers: {voters[0]!r} is not ID@HOST:PORT:DIRECTORY-ID")
    if int(match["id"]) != node_id:
        raise ConfigError(
            f"--initial-controllers: the voter is node {match['id']}, but the file's node.id is {node_id}"
        )
    try:
        directory_id = uuid_from_text(match["directory"])
    except ValueError as error:
        raise ConfigError(f"--initial-controllers: {error}") from None
    return BrokerEndpoint(listener, match["host"].strip("[]"), int(match["port"])), directory_id


def _level(text: str) -> tuple[str, int]:
    name, _, level = text.partition("=")
    if not (name.strip() and level.strip().isdecimal()):
        raise click.UsageError(f"--feature {text!r} is not NAME=LEVEL.")
    return name.strip(), int(level)


def _row(request: FormatRequest, plan: FormatPlan, path: Path, properties: MetaProperties | None) -> Row:
    is_new = path in plan.new
    directory_id = None if properties is None else properties.directory_id
    return {
        "directory": str(path),
        "condition": "formatted already" if not is_new else "new" if properties is None else "formatted",
        "holds": "data and metadata" if path == request.metadata_directory else "data",
        "cluster_id": request.cluster_id,
        "node_id": request.node_id,
        "directory_id": None if directory_id is None else uuid_to_text(directory_id),
        "files": request.files_of(path) if is_new else [],
    }


def _notes(request: FormatRequest, levels: Mapping[str, int], *, is_applied: bool) -> Iterator[str]:
    if request.is_controller:
        yield from _first_records(request, levels)
    yield "Done." if is_applied else "Nothing was written. Use --apply to format."


def _first_records(request: FormatRequest, levels: Mapping[str, int]) -> Iterator[str]:
    others = ", ".join(f"{name}={level}" for name, level in sorted(levels.items()) if name != METADATA_VERSION)
    level = levels[METADATA_VERSION]
    yield f"The cluster begins with {METADATA_VERSION}={level} ({release_name(level)}), {others}."
    users = [record.fields for record in request.first_records if record.name == "UserScramCredentialRecord"]
    if users:
        names = ", ".join(f"{user['name']} ({ScramMechanism(user['mechanism']).title})" for user in users)
        yield f"Users of the new cluster: {names}."
