"""The driver of a broker's ``Follower``: it sends the core's requests, and executes its commands on the replica."""

from __future__ import annotations

from collections.abc import Callable

from simulation.history import History, name_of
from simulation.replica import Replica
from simulation.requests import Fetched, ListedOffsets
from tidelog.model import TidelogError
from tidelog.replication import (
    Append,
    Commands,
    Fail,
    FetchedPartition,
    FetchPosition,
    FollowedLeader,
    Follower,
    ListedPartition,
    ListOffsets,
    Phase,
    RaiseLogStart,
    SetHighWatermark,
    TruncateFully,
    TruncateTo,
)

Send = Callable[[int, "FollowingDriver", FetchPosition | ListOffsets], int]
"""Sends a request to a broker for a driver, and returns its correlation id."""


class FollowingDriver:
    def __init__(
        self, replica: Replica, send: Send, delete_below: Callable[[int, int], None], history: History
    ) -> None:
        self.replica = replica
        self._delete_below = delete_below
        self.follower = Follower(replica.log)
        self._send = send
        self._history = history
        self._awaited: int | None = None
        """The correlation id of the request whose response lets the driver go on."""

    # --- events ---

    def follow(self, leader_id: int, leader_epoch: int, now_ms: int) -> None:
        known = self.follower.leader
        if known is None or (known.leader_id, known.leader_epoch) != (leader_id, leader_epoch):
            self._history.note(
                "broker {} follows broker {} for {} in epoch {}, from offset {}",
                self.replica.node_id,
                leader_id,
                name_of(self.replica.partition),
                leader_epoch,
                self.replica.end,
            )
            self._awaited = None
        self._run(self.follower.follow(FollowedLeader(leader_id=leader_id, leader_epoch=leader_epoch)), now_ms)
        self.go_on(now_ms)

    def stop(self) -> None:
        self.follower.stop()
        self._awaited = None

    def go_on(self, now_ms: int) -> None:
        """Send the next Fetch request, unless one is under way or the follower waits."""
        if self._awaited is None and self.follower.leader is not None:
            position = self.follower.poll(now_ms)
            if position is not None:
                self._awaited = self._send(self.follower.leader.leader_id, self, position)

    def respond(self, correlation_id: int, asked: FetchPosition | ListOffsets, body: object, now_ms: int) -> None:
        """Process a response, or the failure of a request. It may belong to an earlier leader or epoch."""
        if correlation_id == self._awaited:
            self._awaited = None
        if body is None:
            commands = self.follower.request_failed(asked, now_ms)
        elif isinstance(body, Fetched):
            assert isinstance(asked, FetchPosition)
            response = FetchedPartition(
                error_code=body.error,
                high_watermark=body.high_watermark,
                log_start_offset=body.log_start,
                diverging_epoch=body.diverging,
                records=body.data,
            )
            commands = self.follower.fetched(asked, response, now_ms)
        else:
            assert isinstance(body, ListedOffsets)
            assert isinstance(asked, ListOffsets)
            commands = self.follower.listed(asked, ListedPartition(error_code=body.error, offset=body.offset), now_ms)
        self._run(commands, now_ms)
        self.go_on(now_ms)

    # --- commands ---

    def _run(self, commands: Commands, now_ms: int) -> None:
        while commands:
            try:
                for command in commands:
                    self._execute(command)
            except TidelogError as error:
                commands = self.follower.write_failed(error, now_ms)
            else:
                commands = self.follower.written(now_ms) if self.follower.phase is Phase.WRITING else ()

    def _execute(self, command: object) -> None:
        replica = self.replica
        if isinstance(command, Append):
            replica.append_as_follower(bytes(command.records), command.leader_epoch)
        elif isinstance(command, SetHighWatermark):
            replica.update_high_watermark(command.offset)
        elif isinstance(command, TruncateTo):
            self._tell_truncation(command)
            replica.truncate_to(command.offset)
        elif isinstance(command, TruncateFully):
            self._history.note(
                "broker {} starts {} over at offset {}", replica.node_id, name_of(replica.partition), command.offset
            )
            replica.start_over_at(command.offset)
        elif isinstance(command, RaiseLogStart):
            self._delete_below(replica.partition, command.offset)
        elif isinstance(command, ListOffsets):
            assert self.follower.leader is not None
            self._awaited = self._send(self.follower.leader.leader_id, self, command)
        elif isinstance(command, Fail):
            self._history.note(
                "broker {} stops fetching {}: {}", replica.node_id, name_of(replica.partition), command.message
            )

    def _tell_truncation(self, command: TruncateTo) -> None:
        lost = self.replica.end - command.offset
        self._history.note(
            "broker {} truncates {} to {}, because {}: {} record{} removed",
            self.replica.node_id,
            name_of(self.replica.partition),
            command.offset,
            command.cause.value,
            lost,
            "" if lost == 1 else "s",
        )
