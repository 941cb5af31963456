"""``tidelog.mirror``: the mirror for Python programs, with the options of the command."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidelog.mirroring.blocking import run_mirror
from tidelog.mirroring.planning.options import MirrorOptions, source_settings
from tidelog.mirroring.run.progress import EventCallback, MirrorResult, ProgressCallback
from tidelog.mirroring.target.target_settings import DEFAULT_NODE_ID
from tidelog.model import ConfigError
from tidelog.storage.fs import path_of

PathLike = str | os.PathLike[str]

DEFAULT_MIN_FREE = 1024**3
"""The bytes that stay free on the disk by default, as for the command."""


def mirror(
    bootstrap_servers: str | Sequence[str],
    directory: PathLike,
    *,
    topics: str = ".*",
    groups: bool = True,
    follow: bool = False,
    command_config: PathLike | Mapping[str, str] | None = None,
    deleted: str = "keep",
    max_rate: int | None = None,
    min_free: int = DEFAULT_MIN_FREE,
    accept_data_loss: bool = False,
    accept_other_cluster: bool = False,
    node_id: int = DEFAULT_NODE_ID,
    release: str | None = None,
    on_progress: ProgressCallback | None = None,
    on_event: EventCallback | None = None,
    stop: threading.Event | None = None,
) -> MirrorResult:
    """Copy topics of a Kafka cluster into a log directory, and return when the copy is complete or stopped.

    ``topics`` is a regular expression for complete names. ``groups`` adds committed offsets and transactions. With
    ``follow`` the copy goes on until ``stop`` is set, which any thread may do. ``command_config`` is a client's
    properties file, or its settings by Kafka's keys. ``max_rate`` (bytes a second) and ``min_free`` (bytes) limit the
    run. ``deleted`` is ``keep`` or ``delete``. The callbacks run in this call's thread. docs/mirror.md has the rules.

    Raise ClientError if the source cannot be reached or refuses this client. Raise ConfigError for a mistake,
    DirectoryError or LockedError for the directory, and StorageError if the disk fails.
    """
    if deleted not in ("keep", "delete"):
        raise ConfigError(f"deleted={deleted!r} is neither 'keep' nor 'delete'")
    servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
    options = MirrorOptions(
        directory=path_of(directory).absolute(),
        source=source_settings(
            servers, Path(command_config) if isinstance(command_config, str | os.PathLike) else command_config
        ),
        topics=topics,
        with_coordinators=groups,
        follows=follow,
        deletes_old=deleted == "delete",
        max_rate=max_rate,
        min_free=min_free,
        accepts_loss=accept_data_loss,
        accepts_cluster=accept_other_cluster,
        node_id=node_id,
        release=release,
    )
    return run_mirror(
        options,
        on_progress=on_progress or (lambda _progress: None),
        on_event=on_event or (lambda _event: None),
        stop=stop,
    )
