"""A controller whose behaviour a test scripts: the metadata log is a list of batches, and every record is committed.

It registers and unfences brokers like a controller. A test appends records, refuses requests, holds responses back, or
replaces the log by a snapshot. Brokers reach it over real sockets.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from client.peer import Peer, PeerConnection, Request
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.metadata.controller.feature_updates import feature_record
from tidelog.server.metadata.features import LATEST_METADATA_VERSION, NEW_CLUSTER
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.batches import build_control, build_records
from tidelog.server.metadata.kraft.metadata_log import METADATA_TOPIC_ID
from tidelog.server.metadata.kraft.quorum import Voters, leader_change
from tidelog.server.metadata.kraft.snapshot import build_snapshot, image_records
from tidelog.server.metadata.metadata_record import MetadataRecord, encode_record
from tidelog.storage.checkpoint import uuid_to_text

CONTROLLER = 100
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
PATIENCE_S = 30
_LONGEST_FETCH_S = 0.3
_PIECE_BYTES = 300


class Batch(NamedTuple):
    base_offset: int
    end_offset: int
    data: bytes


class ScriptedController:
    def __init__(self, node_id: int = CONTROLLER) -> None:
        self.node_id = node_id
        self.epoch = 1
        self.leader_id = node_id
        self.batches: list[Batch] = []
        self.snapshot: tuple[int, int, bytes] | None = None
        """End offset, epoch and bytes of the snapshot below the log."""
        self.image = MetadataImage()
        """All records applied."""
        self.scripts: dict[ApiKey, deque[Mapping[str, Any]]] = defaultdict(deque)
        """Responses that come before the usual ones, by API."""
        self.handlers: dict[ApiKey, Callable[[Any], Mapping[str, Any]]] = {
            ApiKey.BROKER_REGISTRATION: self._register,
            ApiKey.BROKER_HEARTBEAT: self._heartbeat,
            ApiKey.ASSIGN_REPLICAS_TO_DIRS: _assigned,
        }
        self.requests: list[tuple[ApiKey, Any]] = []
        self.may_shut_down = True
        self.is_paused = False
        """True while fetches of the log find nothing new."""
        self._news = asyncio.Event()
        self._peer = Peer(self._serve)
        self._append_control()
        self.append(*(feature_record(name, level) for name, level in NEW_CLUSTER.items()))

    async def __aenter__(self) -> Self:
        await self._peer.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._peer.__aexit__(kind, error, trace)

    @property
    def address(self) -> str:
        return str(self._peer.address)

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0 if self.snapshot is None else self.snapshot[0]

    def of(self, api: ApiKey) -> list[Any]:
        """Return the requests of an API so far."""
        return [values for found, values in self.requests if found is api]

    async def until(self, api: ApiKey, is_so: Callable[[Any], bool] = lambda _request: True) -> Any:
        """Return the first request of the API for which the condition holds, and wait for it."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = [request for request in self.of(api) if is_so(request)]
                if found:
                    return found[0]
                await asyncio.sleep(0.005)

    # --- the log ---

    def append(self, *records: MetadataRecord) -> int:
        """Append records as one batch, and return its base offset."""
        base = self.end_offset
        values = [encode_record(record, LATEST_METADATA_VERSION) for record in records]
        data = build_records(values, base_offset=base, epoch=self.epoch, now_ms=1)
        self._add(Batch(base, base + len(records), bytes(data)))
        for record in records:
            self.image.apply(record)
        return base

    def append_value(self, value: bytes) -> None:
        """Append the value of one record, which may be any bytes."""
        base = self.end_offset
        self._add(Batch(base, base + 1, bytes(build_records([value], base_offset=base, epoch=self.epoch, now_ms=1))))

    def replace_log_by_snapshot(self) -> None:
        """Let the log begin at its end, after a snapshot of everything."""
        values = [encode_record(record, LATEST_METADATA_VERSION) for record in image_records(self.image)]
        data = build_snapshot(values, epoch=self.epoch, last_timestamp_ms=1, now_ms=1)
        self.snapshot = (self.end_offset, self.epoch, data)
        self.batches.clear()
        self._news.set()

    def begin_epoch(self) -> None:
        """Begin a new epoch as leader."""
        self.epoch += 1
        self._append_control()

    def _append_control(self) -> None:
        change = leader_change(self.node_id, Voters(kraft_version=0, voters=()))
        base = self.end_offset
        data = build_control([change], base_offset=base, epoch=self.epoch, now_ms=1)
        self._add(Batch(base, base + 1, bytes(data)))

    def _add(self, batch: Batch) -> None:
        self.batches.append(batch)
        self._news.set()
        self._news = asyncio.Event()

    # --- requests ---

    async def _serve(self, connection: PeerConnection) -> None:
        await connection.tell_versions()
        while True:
            request = await connection.request()
            values = request.values
            self.requests.append((request.api, values))
            await connection.respond(request, await self._response(request, values))

    async def _response(self, request: Request, values: Any) -> Mapping[str, Any]:
        if self.scripts[request.api]:
            return self.scripts[request.api].popleft()
        match request.api:
            case ApiKey.FETCH:
                return await self._fetch(values)
            case ApiKey.FETCH_SNAPSHOT:
                return self._fetch_snapshot(values)
            case api:
                return self.handlers[api](values)

    async def _fetch(self, values: Any) -> Mapping[str, Any]:
        (asked,) = values.topics[0].partitions
        if self.is_paused or asked.fetch_offset == self.end_offset:
            try:
                async with asyncio.timeout(_LONGEST_FETCH_S):
                    await self._news.wait()
            except TimeoutError:
                pass
        part: dict[str, Any] = {"partition_index": 0, "current_leader": self._leader, "high_watermark": self.end_offset}
        if self.is_paused:
            return self._fetched(part | {"high_watermark": asked.fetch_offset})
        if asked.current_leader_epoch != self.epoch or self.leader_id != self.node_id:
            is_older = asked.current_leader_epoch < self.epoch
            return self._fetched(part | {"error_code": ErrorCode.FENCED_LEADER_EPOCH if is_older else 74})
        if self.snapshot is not None and asked.fetch_offset < self.snapshot[0]:
            end_offset, epoch, _ = self.snapshot
            return self._fetched(part | {"snapshot_id": {"end_offset": end_offset, "epoch": epoch}})
        data = b"".join(batch.data for batch in self.batches if batch.base_offset >= asked.fetch_offset)
        return self._fetched(part | {"records": data})

    def _fetched(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        empty = {"error_code": 0, "log_start_offset": 0, "aborted_transactions": [], "records": b""}
        topic = {"topic_id": METADATA_TOPIC_ID, "partitions": [empty | dict(part)]}
        return {"responses": [topic], "node_endpoints": self._endpoints}

    def _fetch_snapshot(self, values: Any) -> Mapping[str, Any]:
        (asked,) = values.topics[0].partitions
        assert self.snapshot is not None
        end_offset, epoch, data = self.snapshot
        part = {
            "index": 0,
            "error_code": 0,
            "snapshot_id": {"end_offset": end_offset, "epoch": epoch},
            "current_leader": self._leader,
            "size": len(data),
            "position": asked.position,
            "unaligned_records": data[asked.position : asked.position + _PIECE_BYTES],
        }
        topic = {"name": "__cluster_metadata", "partitions": [part]}
        return {"topics": [topic], "node_endpoints": self._endpoints}

    @property
    def _leader(self) -> Mapping[str, int]:
        return {"leader_id": self.leader_id, "leader_epoch": self.epoch}

    @property
    def _endpoints(self) -> Sequence[Mapping[str, Any]]:
        at = self._peer.address
        return [{"node_id": self.node_id, "host": at.host, "port": at.port}]

    # --- brokers ---

    def _register(self, values: Any) -> Mapping[str, Any]:
        epoch = self.end_offset
        fields = {
            "brokerId": values.broker_id,
            "incarnationId": uuid_to_text(values.incarnation_id),
            "brokerEpoch": epoch,
            "endPoints": [
                {"name": one.name, "host": one.host, "port": one.port, "securityProtocol": one.security_protocol}
                for one in values.listeners
            ],
            "features": [
                {
                    "name": one.name,
                    "minSupportedVersion": one.min_supported_version,
                    "maxSupportedVersion": one.max_supported_version,
                }
                for one in values.features
            ],
            "rack": values.rack,
            "fenced": True,
            "inControlledShutdown": False,
            "logDirs": [uuid_to_text(one) for one in values.log_dirs],
            "cordonedLogDirs": None,
        }
        self.append(MetadataRecord("RegisterBrokerRecord", fields))
        return {"error_code": 0, "broker_epoch": epoch}

    def _heartbeat(self, values: Any) -> Mapping[str, Any]:
        broker = self.image.brokers[values.broker_id]
        if values.broker_epoch != broker.epoch:
            return {"error_code": ErrorCode.STALE_BROKER_EPOCH}
        wants_fence = values.want_fence or (values.want_shut_down and self.may_shut_down)
        if wants_fence != broker.is_fenced:
            change = {
                "brokerId": broker.id,
                "brokerEpoch": broker.epoch,
                "fenced": 1 if wants_fence else -1,
            }
            self.append(MetadataRecord("BrokerRegistrationChangeRecord", change))
        return {
            "error_code": 0,
            "is_caught_up": values.current_metadata_offset >= broker.epoch,
            "is_fenced": wants_fence,
            "should_shut_down": values.want_shut_down and self.may_shut_down,
        }


def _assigned(values: Any) -> Mapping[str, Any]:
    """Accept the directory of each replica."""
    return {
        "directories": [
            {
                "id_": one.id_,
                "topics": [
                    {
                        "topic_id": topic.topic_id,
                        "partitions": [{"partition_index": part.partition_index} for part in topic.partitions],
                    }
                    for topic in one.topics
                ],
            }
            for one in values.directories
        ]
    }
