"""``tidelog import``: plans a metadata log for directories without one; ``--apply`` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tidelog.cli.import_report import OWN_TOPICS, import_report
from tidelog.cli.options import expand, output_options
from tidelog.cli.report import Report
from tidelog.cli.setting_options import topic_config_option, topic_settings
from tidelog.cli.zookeeper_options import read_cluster, zookeeper_options
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.topic_settings import TopicSettings
from tidelog.model import ConfigError
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.server.metadata.kraft.formatting import metadata_directory_of
from tidelog.server.metadata.zookeeper_import.importer import Importer
from tidelog.server.metadata.zookeeper_import.survey import SurveyRequest, survey_directories
from tidelog.server.start_settings import complete_settings
from tidelog.server.topics.internal_topics import automatic_topic
from tidelog.storage.fs import LOCAL, require_disk


@click.command(name="import")
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--config",
    "-c",
    "file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The server.properties of the broker that will serve the directories.  [default: as for `tidelog serve`]",
)
@click.option("--node-id", type=click.IntRange(0), metavar="N", help="The broker's id, if no meta.properties has it.")
@zookeeper_options(
    "Take topic ids, settings, users, ACLs and quotas from ZooKeeper, which zookeeper.connect of the broker names."
    " ZooKeeper is only read."
)
@topic_config_option
@click.option("--apply", "is_applied", is_flag=True, help="Apply the plan. Without this option, nothing is written.")
@output_options
def import_(
    directories: Sequence[str],
    file: Path | None,
    node_id: int | None,
    zookeeper: str | None,
    zookeeper_config: Path | None,
    settings: Sequence[str],
    is_applied: bool,
) -> Report:
    """Create a metadata log for the directories of a broker that has none.

    Give all log directories of one broker, written by Kafka before 4 with ZooKeeper, or by the Python API. Topics, ids
    and leader epochs come from the partition directories, and the log files stay as they are. Afterwards, `tidelog
    serve` and Kafka 4.4 can start on them. The only way back to ZooKeeper is a copy of the directories.

    With --zookeeper, the settings of topics and brokers, SCRAM users, ACLs, quotas and the next producer id come from
    ZooKeeper. The plan names everything that cannot come along. Stop all brokers of the cluster first, this one last:
    the result is a cluster of this broker alone, so it must have an in-sync replica of each partition.

    Without --zookeeper these are missing. A topic keeps all of its records until its settings are changed, and a
    compacted topic stays compacted. Use --topic-config for the settings that you know.

    Exit codes: 0 planned or imported, 2 wrong usage, 3 a directory cannot be used, or ZooKeeper cannot be read.

    \b
    Examples:
      tidelog import /var/lib/kafka
      tidelog import /var/lib/kafka --zookeeper localhost:2181/kafka --apply
      tidelog import /var/lib/kafka --topic-config orders:retention.ms=604800000 --apply
      tidelog import '/mnt/disk*/kafka' --config server.properties --apply
    """
    paths = [path.absolute() for path in expand(directories)]
    require_disk(paths)
    config = BrokerConfig.load(file, None if file else complete_settings({"log.dirs": ",".join(map(str, paths))}))
    given = topic_settings(settings)
    cluster = read_cluster(zookeeper, zookeeper_config)
    survey = survey_directories(
        LOCAL,
        SurveyRequest(
            directories=paths,
            metadata_directory=_metadata_directory(config, paths, has_file=file is not None),
            node_id=config.node_id if file else node_id,
            topic_settings=given,
            internal_settings={name: _own_settings(name, config) for name in OWN_TOPICS},
            cluster=cluster,
        ),
    )
    for topic in survey.topics:
        TopicSettings.of(topic.settings, config)
    if is_applied:
        survey = Importer(fs=LOCAL, config=config, clock=SYSTEM_CLOCK).run(survey)
    return import_report(survey, given, from_zookeeper=cluster is not None, is_applied=is_applied)


def _own_settings(name: str, config: BrokerConfig) -> dict[str, str]:
    """Return the settings that a broker gives an internal topic when it creates it."""
    return {key: value for key, value in automatic_topic(name, config).configs.items() if value is not None}


def _metadata_directory(config: BrokerConfig, paths: Sequence[Path], *, has_file: bool) -> Path:
    if not has_file:
        return paths[0]
    configured = {Path(path).absolute() for path in config.log_dirs}
    if configured != set(paths):
        raise ConfigError(
            f"log.dirs in the file names {', '.join(map(str, sorted(configured)))}, the arguments are"
            f" {', '.join(map(str, sorted(paths)))}: they must be equal"
        )
    directory = metadata_directory_of(config).absolute()
    if directory not in configured:
        raise ConfigError("metadata.log.dir is not in log.dirs: remove it, or set it to one of them")
    return directory
