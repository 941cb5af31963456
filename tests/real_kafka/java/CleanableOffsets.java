package org.apache.kafka.storage.internals.log;

import java.io.IOException;
import java.util.Optional;

/** Calls LogCleanerManager.cleanableOffsets for a log. It is in Kafka's package, because the method is not public. */
public record CleanableOffsets(long firstDirtyOffset, long firstUncleanableDirtyOffset, boolean forceUpdateCheckpoint) {
    public static CleanableOffsets of(UnifiedLog log, Optional<Long> checkpoint, long nowMs) throws IOException {
        LogCleanerManager.OffsetsToClean offsets = LogCleanerManager.cleanableOffsets(log, checkpoint, nowMs);
        return new CleanableOffsets(
            offsets.firstDirtyOffset(), offsets.firstUncleanableDirtyOffset(), offsets.forceUpdateCheckpoint());
    }
}
