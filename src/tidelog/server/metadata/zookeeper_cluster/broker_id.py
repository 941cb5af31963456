"""The id of a broker whose config has none: the id in its log directories, or a new one from ZooKeeper.

A new id is ``reserved.broker.max.id`` plus the version of ``/brokers/seqid`` after a change of that znode, so no two
brokers get the same one. The session ends before the broker starts its own. The broker writes the id to its log
directories when it starts. If it fails before that, the id is lost, and the next start generates the following one.
Thread rule: the event loop only. Source: Kafka's ``KafkaServer.getOrGenerateBrokerId``,
``KafkaZkClient.generateBrokerSequenceId``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from tidelog.config.broker_config import BrokerConfig
from tidelog.server.metadata.zookeeper.operations import Create, Operation, ReadZnode, SetData, ZnodeConflictError
from tidelog.server.metadata.zookeeper.session import ZooKeeperSession
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings
from tidelog.server.metadata.zookeeper_cluster.directories import stored_broker_id
from tidelog.storage.fs import FileSystem

_SEQUENCE: Final = "/brokers/seqid"
_log = logging.getLogger(__name__)


class SequenceSession(Protocol):
    """The part of ``ZooKeeperSession`` that generates ids."""

    async def read(self, paths: Sequence[str]) -> list[ReadZnode | None]: ...
    async def commit(self, operations: Sequence[Operation]) -> list[str | None]: ...


async def find_broker_id(config: BrokerConfig, zookeeper: ZooKeeperSettings, fs: FileSystem) -> int:
    """Return the id in the log directories, or generate one. Raise ZooKeeperError, ConfigError or DirectoryError."""
    directories = [Path(path) for path in config.log_dirs]
    stored = await asyncio.to_thread(stored_broker_id, fs, directories)
    if stored is not None:
        return stored
    session = ZooKeeperSession(zookeeper, on_event=lambda _event: None, on_state=lambda _state: None)
    try:
        await session.open()
        found = config.number("reserved.broker.max.id") + await next_in_sequence(session)
    finally:
        await session.close()
    _log.info("ZooKeeper has generated broker.id %d", found)
    return found


async def next_in_sequence(session: SequenceSession) -> int:
    """Return a number from 1 on that no other broker of the cluster gets. Raise ZooKeeperError."""
    while True:
        (found,) = await session.read([_SEQUENCE])
        try:
            if found is not None:
                await session.commit([SetData(_SEQUENCE, b"", found.version)])
                return found.version + 1
            await _create_sequence(session)
        except ZnodeConflictError as error:
            _log.debug("Another broker changed %s at the same time: %s", _SEQUENCE, error)


async def _create_sequence(session: SequenceSession) -> None:
    """Create the znode with its parent."""
    parent, _, _ = _SEQUENCE.rpartition("/")
    (found,) = await session.read([parent])
    parents = [Create(parent)] if found is None else []
    await session.commit([*parents, Create(_SEQUENCE)])
