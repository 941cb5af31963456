"""``tidelog web``: serves the inspector's pages until a signal ends it, and prints its address on stderr.

A broker starts the same command for its own log directories, with the hidden options: ``server.live_reports`` passes
two sockets, for visitors and for the reports of the broker.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tidelog.cli.options import expand, schemas_option
from tidelog.cli.web_address import DEFAULT_ADDRESS, WebAddress, require_web_extra
from tidelog.storage.fs import path_of

_NICENESS = 10
"""The priority of a process that a broker has started is lower by this."""


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--bind",
    default=DEFAULT_ADDRESS,
    show_default=True,
    metavar="HOST:PORT",
    help="The address to serve on. Port 0 takes a free port.",
)
@click.option(
    "--token",
    envvar="TIDELOG_WEB_TOKEN",
    metavar="TOKEN",
    help="A secret that every visitor must give. Any address but a loopback address needs it. Use the environment"
    " variable TIDELOG_WEB_TOKEN to keep it out of process lists.",
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A further host name in the URLs of the pages, for a proxy in front of a loopback address without a token."
    " Repeatable.",
)
@schemas_option
@click.option("--from-broker", "inherited", hidden=True, metavar="LISTENER,LINK")
@click.option("--broker-users", is_flag=True, hidden=True)
def web(
    directories: Sequence[str],
    bind: str,
    token: str | None,
    allowed_hosts: Sequence[str],
    schemas: str | None,
    inherited: str | None,
    broker_users: bool,
) -> None:
    """Serve pages about log directories: the contents of the disk, with reasons.

    The pages show the log directories of one cluster, from a topic down to the bytes of a batch. Each page has the same
    URL with .json at its end for programs, and tidelog inspect prints it without a server. The directories may be those
    of stopped or running brokers, backups, or URLs of object storage. Nothing is ever written.

    The extra "web" has the libraries: pip install 'tidelog[web]'.

    Exit codes: 0 stopped by a signal, 2 wrong usage, 3 a directory cannot be read.

    \b
    Examples:
      tidelog web /var/lib/kafka
      tidelog web '/mnt/disk*/kafka' --bind 127.0.0.1:0
      tidelog web /var/lib/kafka --bind 0.0.0.0:8088 --token SECRET
    """
    require_web_extra()
    from tidelog.web.security import is_loopback
    from tidelog.web.server import Serving, run
    from tidelog.web.sources import Sources

    if token == "":
        raise click.UsageError("The --token is empty.")
    if inherited is not None:
        _leave_to_broker()
        listener, link = (socket.socket(fileno=int(number)) for number in inherited.split(","))
        serving = Serving(
            listener=listener, token=token, allowed_hosts=allowed_hosts, link=link, with_users=broker_users
        )
        run(Sources.of(map(Path, directories)), serving, on_ready=lambda: None)
        return
    address = WebAddress.parse(bind, "--bind")
    if token is None and not is_loopback(address.host):
        raise click.UsageError(f"{address.host} can be reached from other machines: give a --token.")
    sources = Sources.of(expand(directories), schemas=None if schemas is None else path_of(schemas))
    listener = address.listen()
    serving = Serving(listener=listener, token=token, allowed_hosts=allowed_hosts)
    run(sources, serving, on_ready=lambda: click.echo(f"serving  {address.url(listener)}", err=True))


def _leave_to_broker() -> None:
    """Give the broker's threads precedence, and leave Ctrl-C to the broker, which stops this process.

    A batch process does not interrupt other processes when it wakes up.
    """
    os.nice(_NICENESS)
    if sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
