"""The truncation that is foreseen is the truncation of a follower: ``replication.Follower`` is the measure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replication.model_log import Driver, ModelLeader, ModelLog
from tidelog.inspect.compare.truncation import EpochLog, Truncation, truncation_of
from tidelog.replication import FollowedLeader, Phase, TruncateFully, TruncateTo
from tidelog.storage.epoch import EpochEntry


def epoch_log(log: ModelLog) -> EpochLog:
    return EpochLog(
        log_start=log.log_start_offset,
        log_end=log.end_offset,
        high_watermark=log.high_watermark,
        epochs=log.cache.entries,
    )


def followed(follower: ModelLog, leader: ModelLog, epoch: int) -> Truncation:
    """Let a follower follow until the leader sends records or there are none. Return its truncation."""
    driver = Driver(log=follower)
    commands = list(driver.run(driver.follower.follow(FollowedLeader(leader_id=1, leader_epoch=epoch))))
    serving = ModelLeader(log=leader, epoch=epoch, max_records=0)
    for _ in range(50):
        if driver.follower.phase is not Phase.FETCHING:
            break
        done = driver.round(serving)
        commands += done
        if not any(isinstance(one, TruncateTo | TruncateFully) for one in done):
            break
    full = [one.offset for one in commands if isinstance(one, TruncateFully)]
    if full:
        return Truncation(offset=-1, starts_over_at=full[0])
    return Truncation(offset=follower.end_offset)


@given(data=st.data())
def test_a_follower_truncates_as_foreseen(data: st.DataObject) -> None:
    ascending = st.lists(st.integers(0, 5), max_size=10).map(sorted)
    without_epochs = st.lists(st.just(-1), max_size=10)
    theirs = data.draw(ascending, label="leader")
    ours = data.draw(ascending | without_epochs, label="follower")
    leader = ModelLog.of_epochs(*theirs, start=data.draw(st.integers(0, 4), label="leader start"))
    follower = ModelLog.of_epochs(*ours, start=data.draw(st.integers(0, 4), label="follower start"))
    high = st.integers(follower.log_start_offset, follower.end_offset)
    follower.high_watermark = data.draw(high, label="high watermark")
    epoch = max([*theirs, *ours, 0]) + 1
    foreseen = truncation_of(epoch_log(follower), epoch_log(leader).leading(epoch))
    leader.cache.assign(epoch, leader.end_offset)
    done = followed(follower, leader, epoch)
    assert foreseen.starts_over_at == done.starts_over_at
    if done.starts_over_at is None:
        assert foreseen.offset == done.offset


def test_a_new_leader_epoch_begins_at_the_log_end() -> None:
    leader = EpochLog(log_start=0, log_end=20, high_watermark=20, epochs=(EpochEntry(0, 0), EpochEntry(2, 15)))
    follower = EpochLog(log_start=0, log_end=30, high_watermark=10, epochs=(EpochEntry(0, 0), EpochEntry(1, 12)))
    assert truncation_of(follower, leader.leading(5)) == Truncation(offset=12)
    longer = EpochLog(log_start=0, log_end=30, high_watermark=10, epochs=(EpochEntry(0, 0), EpochEntry(2, 15)))
    assert truncation_of(longer, leader.leading(5)) == Truncation(offset=20)
    assert truncation_of(longer, leader.leading(2)) == Truncation(offset=20)


def test_a_follower_below_the_leaders_start_starts_over() -> None:
    leader = EpochLog(log_start=50, log_end=60, high_watermark=60, epochs=(EpochEntry(3, 50),))
    follower = EpochLog(log_start=0, log_end=40, high_watermark=40, epochs=(EpochEntry(3, 0),))
    assert truncation_of(follower, leader) == Truncation(offset=40, starts_over_at=50)
