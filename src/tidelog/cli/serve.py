"""``tidelog serve``: runs a broker until a signal ends it, and prints its addresses on stderr."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.report import UNREADABLE
from tidelog.cli.setting_options import key_values
from tidelog.model.errors import TidelogError

if TYPE_CHECKING:
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.server.cluster_node import ClusterNode


@click.command()
@click.argument(
    "properties",
    required=False,
    metavar="[SERVER.PROPERTIES]",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting that overrides the file's, by Kafka's key. Repeatable.",
)
@click.pass_context
def serve(context: click.Context, properties: Path | None, overrides: Sequence[str]) -> None:
    """Run a broker that Kafka's clients can use.

    Without a file, it serves localhost:9092 and keeps its data in ./tidelog-data. It writes a server.properties there,
    with which Kafka starts, too. A file is Kafka's server.properties, for a broker, a controller, or both. SIGTERM and
    Ctrl-C cause a clean shutdown, and a second signal an immediate exit.

    Exit codes: 0 stopped by a signal, 2 a mistake in the configuration, 3 a directory cannot be used or all have
    failed.

    \b
    Examples:
      tidelog serve
      tidelog serve --override listeners=PLAINTEXT://localhost:9192 --override log.dirs=data
      tidelog serve server.properties
    """
    from tidelog.runtime.logging_setup import set_up_logging
    from tidelog.server.process import serve as serve_broker
    from tidelog.server.start_settings import load_start_config, opens_controller

    if not logging.root.handlers:
        set_up_logging()
    own = key_values("--override", overrides)
    config = load_start_config(properties, own)
    config.log_warnings()
    reason = serve_broker(
        config,
        on_ready=lambda node: _say_where(node, None if properties else config),
        opens_controller=opens_controller(properties, own),
    )
    if reason is not None:
        click.echo(f"Error: the broker has stopped: {reason}", err=True)
        context.exit(UNREADABLE)


def _say_where(node: ClusterNode, written: BrokerConfig | None) -> None:
    """Print the node's addresses. ``written`` is the config of a broker that was started without a file."""
    controllers = node.endpoints.controllers if node.accepts_brokers else ()
    rows = {
        "serving": ", ".join(map(str, (*node.advertised, *controllers))),
        "cluster": node.metadata.image.cluster_id,
        "data": ", ".join(map(str, node.data_directories)),
    }
    if written is not None:
        rows["settings"] = _write(written)
    for what, value in rows.items():
        click.echo(f"{what:<9}{value}", err=True)


def _write(config: BrokerConfig) -> str:
    """Return the path of the written settings, or the reason why they were not written."""
    from tidelog.server.server_properties import PROPERTIES_FILE, write_properties

    try:
        path = write_properties(config)
    except (OSError, TidelogError) as error:
        return f"not written: {error}"
    return f"not written: {PROPERTIES_FILE} in {config.log_dirs[0]} is not tidelog's" if path is None else str(path)
