"""``tidelog serve``: runs a broker until a signal ends it, and prints its addresses on stderr."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.report import UNREADABLE
from tidelog.cli.setting_options import key_values
from tidelog.cli.web_address import DEFAULT_ADDRESS, WebAddress, require_web_extra
from tidelog.model.errors import TidelogError
from tidelog.runtime.collector import no_collections

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
@click.option(
    "--web",
    "web_text",
    is_flag=False,
    flag_value=DEFAULT_ADDRESS,
    metavar="[HOST:PORT]",
    help="Serve the inspector's pages about this broker and its log directories, at 127.0.0.1:8088 or the given"
    " address. They run in a process of their own.",
)
@click.option(
    "--web-token",
    envvar="TIDELOG_WEB_TOKEN",
    metavar="TOKEN",
    help="A secret that every visitor of the pages must give. Any address but a loopback address needs it, or"
    " --web-users. Use the environment variable TIDELOG_WEB_TOKEN to keep it out of process lists.",
)
@click.option(
    "--web-users",
    is_flag=True,
    help="Let visitors sign in with the name and password of a PLAIN or SCRAM user of the broker. With an authorizer"
    " they need ClusterAction on the cluster.",
)
@click.option(
    "--web-allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A further host name in the URLs of the pages, for a proxy in front of a loopback address. Repeatable.",
)
@click.pass_context
def serve(
    context: click.Context,
    properties: Path | None,
    overrides: Sequence[str],
    web_text: str | None,
    web_token: str | None,
    web_users: bool,
    allowed_hosts: Sequence[str],
) -> None:
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
      tidelog serve server.properties --web
      tidelog serve server.properties --web 0.0.0.0:8088 --web-users
    """
    with no_collections():
        from tidelog.runtime.logging_setup import set_up_logging
        from tidelog.server.process import serve as serve_broker
        from tidelog.server.start_settings import load_start_config, opens_controller

    if not logging.root.handlers:
        set_up_logging()
    if web_text is not None and properties is None and ":" not in web_text and Path(web_text).is_file():
        properties, web_text = Path(web_text), DEFAULT_ADDRESS  # ``--web server.properties``
    own = key_values("--override", overrides)
    address = None if web_text is None else _web_address(web_text, web_token, with_users=web_users)
    config = load_start_config(properties, own)
    config.log_warnings()
    options: dict[str, Any] = {}
    if address is not None:
        from tidelog.server.process.pages_process import PagesProcess, PagesSetup

        listener = address.listen()
        click.echo(f"pages    {address.url(listener)}", err=True)  # before the start, which may recover logs
        setup = PagesSetup(listener=listener, token=web_token, with_users=web_users, allowed_hosts=allowed_hosts)
        options["accompany"] = lambda node: PagesProcess(node, setup)
    reason = serve_broker(
        config,
        on_ready=lambda node: _say_where(node, None if properties else config),
        opens_controller=opens_controller(properties, own),
        **options,
    )
    if reason is not None:
        click.echo(f"Error: the broker has stopped: {reason}", err=True)
        context.exit(UNREADABLE)


def _web_address(text: str, token: str | None, *, with_users: bool) -> WebAddress:
    """Return the address of the pages. Raise UsageError if the visitors of a public address need not sign in."""
    from tidelog.web.security import is_loopback

    require_web_extra()
    address = WebAddress.parse(text, "--web")
    if token is None and not with_users and not is_loopback(address.host):
        raise click.UsageError(
            f"{address.host} can be reached from other machines: give --web-token TOKEN or --web-users."
        )
    return address


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
