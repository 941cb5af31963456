# cython: boundscheck=False, wraparound=False, cdivision=True
"""The offsets of one log and the rules between them: pure state, without a lock.

Thread rule: the caller holds the partition's lock for a change; any thread may read. These rules always hold:
log start <= high watermark <= log end, and recovery point <= log end. A change of one offset moves others:

===========================  =============================================================================
change                       what follows
===========================  =============================================================================
log end set (append, roll,   a high watermark at or above it becomes it (after a roll: its new position);
truncation)                  a recovery point above it comes down to it
log start set                a high watermark or recovery point below it comes up to it
high watermark updated       clamped to [log start, log end]
high watermark incremented   refused past the log end; only forward, or to a newer segment at the same offset
===========================  =============================================================================

Every append sets the log end, and often the high watermark, so the class is compiled.
Source: Kafka's ``UnifiedLog`` and ``LocalLog``.
"""

from libc.stdint cimport int64_t

from tidelog.model.offsets import LogOffsetMetadata


cdef class LogOffsets:
    """The offsets of a log. The high watermark starts at the log start, as the other replicas are unknown.

    ``log_end`` and ``high_watermark`` are LogOffsetMetadata. The high watermark is offset-only if its segment and
    position are unknown. Every record below ``recovery_point`` is on the disk or below the log start, so it needs no
    flush. Every record below ``synced`` is on the disk, even below the log start, where a crash may restore records.
    ``on_high_watermark`` is called with each new high watermark.
    """

    def __init__(self, *, int64_t log_start, log_end, int64_t recovery_point):
        self.log_start = log_start
        self.log_end = log_end
        self.high_watermark = LogOffsetMetadata(log_start)
        self.recovery_point = max(recovery_point, log_start)
        self.synced = recovery_point

    def set_log_end(self, end):
        self.move_log_end(end)

    cdef int move_log_end(self, object end) except -1:
        cdef int64_t offset = (<tuple>end)[0]
        self.log_end = end
        if <int64_t>(<tuple>self.high_watermark)[0] >= offset:
            self.move_high_watermark(end)
        self.recovery_point = min(self.recovery_point, offset)
        self.synced = min(self.synced, offset)
        return 0

    def restart(self, *, int64_t log_start, at):
        """Set the offsets of a log that was emptied and continues at ``at``."""
        self.log_start = log_start
        self.move_log_end(at)
        self.move_high_watermark(at)

    def note_synced(self, int64_t end):
        """Note that everything below ``end`` is on the disk."""
        self.recovery_point = max(self.recovery_point, end)
        self.synced = max(self.synced, end)

    def set_log_start(self, int64_t offset):
        self.log_start = offset
        if <int64_t>self.high_watermark[0] < offset:
            self.move_high_watermark(LogOffsetMetadata(offset))
        self.recovery_point = max(self.recovery_point, offset)

    def lower_log_start(self, int64_t offset):
        """Lower the log start to ``offset`` after a truncation. No other offset moves."""
        self.log_start = min(self.log_start, offset)

    def note_truncation(self, int64_t offset):
        """Note that records from ``offset`` on were removed, for components that copy the log."""
        self.truncated_at = offset if self.truncated_at is None else min(<int64_t>self.truncated_at, offset)

    def take_truncation(self):
        """Return the lowest offset noted by ``note_truncation`` since the last call."""
        truncated_at, self.truncated_at = self.truncated_at, None
        return truncated_at

    def update_high_watermark(self, wanted):
        """Set a follower's high watermark within the bounds of this log, and return it."""
        cdef int64_t offset = wanted[0]
        if offset < self.log_start:
            self.move_high_watermark(LogOffsetMetadata(self.log_start))
        elif offset >= <int64_t>self.log_end[0]:
            self.move_high_watermark(self.log_end)
        else:
            self.move_high_watermark(wanted)
        return self.high_watermark

    def maybe_increment_high_watermark(self, wanted):
        """Move a leader's high watermark forward. Return the old one, or None. Raise ValueError past the log end."""
        cdef int64_t offset = wanted[0]
        if offset > <int64_t>self.log_end[0]:
            raise ValueError(f"a high watermark of {offset} is past the log end {self.log_end[0]}")
        before = self.high_watermark
        if before[0] > offset or (before[0] == offset and not before.is_on_older_segment(wanted)):
            return None
        self.move_high_watermark(wanted)
        return before

    def resolved_high_watermark(self, place):
        """Set the high watermark's segment and position, which is the log end if no record follows it."""
        self.move_high_watermark(place)

    cdef int move_high_watermark(self, object place) except -1:
        before, self.high_watermark = self.high_watermark, place
        if self.on_high_watermark is not None and (<tuple>before)[0] != (<tuple>place)[0]:
            self.on_high_watermark(place[0])
        return 0
