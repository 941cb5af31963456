import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.DescribeProducersResponseData.ProducerState;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.requests.ProduceResponse.RecordError;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.LogOffsetSnapshot;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * One partition directory and the operations on it, each a line of words; {@code null} stands for none. The result is
 * "result | state of the log": a value or the class of an error, then the log's offsets, epoch and segments.
 *
 * <p>The class keeps the values of a broker's checkpoints: a flush writes them, and an unclean opening begins with them.
 * The jitter of a segment follows from its base offset instead of chance.
 */
final class DrivenLog {
    private static final BrokerTopicStats STATISTICS = new BrokerTopicStats();
    private static final int HOUR_MS = 3_600_000;
    private static final long JITTER_STEP_MS = 1_000_003;
    private static final int V2_HEADER_BYTES = 61;
    private static final int V2_PRODUCER_ID_POSITION = 43;

    private final ManualTime time = new ManualTime();
    private final HeldTasks tasks = new HeldTasks(time);
    private final Map<String, String> settings = new HashMap<>();
    private final Map<Long, VerificationGuard> guards = new HashMap<>();
    private final DrivenCleaner cleaner = new DrivenCleaner(time);
    private File directory;
    private UnifiedLog log;
    private long checkpointedRecoveryPoint;
    private long checkpointedLogStart;
    private long checkpointedHighWatermark;

    String perform(String[] words) {
        String result;
        try {
            result = apply(words);
            tasks.runImmediate();
        } catch (RecordValidationException error) {
            result = "error " + error.invalidException().getClass().getSimpleName() + " of records "
                + error.recordErrors().stream().map(one -> String.valueOf(batchIndex(one))).collect(Collectors.joining(","));
            tasks.runImmediate();
        } catch (Exception error) {
            result = "error " + error.getClass().getSimpleName();
            tasks.runImmediate();
        }
        holdJitter();
        return words[0].equals("close") || words[0].equals("kill") ? result : result + " | " + state();
    }

    private String apply(String[] words) throws IOException, GeneralSecurityException {
        return switch (words[0]) {
            case "create" -> create(words);
            case "close" -> close();
            case "kill" -> kill();
            case "reopen" -> reopen(Boolean.parseBoolean(words[1]));
            case "clock" -> done(() -> time.set(number(words[1])));
            case "set" -> done(() -> settings.put(words[1], words[2]), () -> log.updateConfig(new LogConfig(settings)));
            case "append" -> append(bytes(words[1]), Integer.parseInt(words[2]), AppendOrigin.valueOf(words[3]));
            case "replicate" -> appended(log.appendAsFollower(
                MemoryRecords.readableRecords(bytes(words[1])), Integer.parseInt(words[2])));
            case "update-high-watermark" -> String.valueOf(log.updateHighWatermark(batchStart(number(words[1]))));
            case "increment-high-watermark" -> incrementHighWatermark(batchStart(number(words[1])));
            case "roll" -> String.valueOf(log.activeSegment().size() == 0 ? log.logEndOffset() : log.roll().baseOffset());
            case "flush" -> flush();
            case "flush-new" -> flushNew();
            case "truncate" -> truncate(number(words[1]));
            case "truncate-fully" -> truncateFully(number(words[1]), optional(words[2]));
            case "increment-log-start" -> String.valueOf(log.maybeIncrementLogStartOffset(
                number(words[1]), LogStartOffsetIncrementReason.ClientRecordDeletion));
            case "delete-old-segments" -> String.valueOf(log.deleteOldSegments());
            case "clean" -> cleaner.clean(log, Integer.parseInt(words[1]), Integer.parseInt(words[2]));
            case "remove-deleted" -> done(tasks::runDueDeletions);
            case "assign-epoch" -> done(() -> log.assignEpochStartOffset(
                Integer.parseInt(words[1]), optional(words[2]).orElse(log.logEndOffset())));
            case "end-offset-for-epoch" -> log.endOffsetForEpoch(Integer.parseInt(words[1]))
                .map(end -> end.epoch() + " ends at " + end.offset()).orElse("none");
            case "offset-for-timestamp" -> offsetForTimestamp(number(words[1]));
            case "read" -> read(log.read(number(words[1]), Integer.parseInt(words[2]), FetchIsolation.valueOf(words[3]),
                Boolean.parseBoolean(words[4])));
            case "producers" -> producers();
            case "expire-producers" -> done(() -> log.removeExpiredProducers(time.milliseconds()));
            case "verify" -> verify(number(words[1]), Integer.parseInt(words[2]), Short.parseShort(words[3]),
                Boolean.parseBoolean(words[4]));
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    // --- opening and ending ---

    private String create(String[] words) throws IOException {
        directory = new File(words[1]);
        time.set(number(words[2]));
        for (int at = 3; at < words.length; at++) {
            String[] setting = words[at].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        directory.mkdirs();
        return open(true);
    }

    private String open(boolean cleanlyStopped) throws IOException {
        int expirationMs = Integer.parseInt(settings.getOrDefault("producer.id.expiration.ms", "86400000"));
        boolean verifies = Boolean.parseBoolean(settings.getOrDefault("transaction.partition.verification.enable", "false"));
        guards.clear();
        log = UnifiedLog.create(directory, new LogConfig(settings), checkpointedLogStart, checkpointedRecoveryPoint, tasks,
            STATISTICS, time, 5 * 60_000, new ProducerStateManagerConfig(expirationMs, verifies), HOUR_MS,
            new LogDirFailureChannel(1), cleanlyStopped, Optional.empty(), new ConcurrentHashMap<>(), false,
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        tasks.runDeletions();
        for (LogSegment segment : log.logSegments()) {
            segment.maxTimestampSoFar(); // a truncation ignores a largest timestamp that no caller has read
        }
        log.updateHighWatermark(batchStart(checkpointedHighWatermark));
        return "opened";
    }

    private void holdJitter() {
        long below = Math.min(log.config().segmentJitterMs, log.config().segmentMs);
        if (below <= 1) { // there is no chance in it
            return;
        }
        try {
            Field jitter = LogSegment.class.getDeclaredField("rollJitterMs");
            jitter.setAccessible(true);
            for (LogSegment segment : log.logSegments()) {
                jitter.setLong(segment, segment.baseOffset() * JITTER_STEP_MS % below);
            }
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private String reopen(boolean cleanly) throws IOException {
        if (cleanly) {
            close();
        } else {
            kill();
        }
        return open(cleanly);
    }

    /** The steps of a broker's clean shutdown: flush, close, write checkpoints. */
    private String close() {
        log.prepareActiveSegmentForClose();
        flush();
        log.close();
        tasks.forget();
        return "closed";
    }

    private String kill() {
        log.closeQuietly();
        tasks.forget();
        return "killed";
    }

    private String flush() {
        log.flush(true);
        checkpointedRecoveryPoint = log.recoveryPoint();
        checkpointedLogStart = log.logStartOffset();
        checkpointedHighWatermark = log.highWatermark();
        return "flushed at " + log.lastFlushTime();
    }

    private String flushNew() {
        log.flush(false);
        return "flushed at " + log.lastFlushTime();
    }

    // --- appending ---

    private String append(ByteBuffer bytes, int leaderEpoch, AppendOrigin origin) {
        long producerId = bytes.limit() < V2_HEADER_BYTES ? -1 : bytes.getLong(V2_PRODUCER_ID_POSITION);
        VerificationGuard guard = guards.getOrDefault(producerId, VerificationGuard.SENTINEL);
        short transactionVersion = origin == AppendOrigin.COORDINATOR
            ? TransactionVersion.TV_0.featureLevel() : TransactionVersion.TV_UNKNOWN;
        return appended(log.appendAsLeader(MemoryRecords.readableRecords(bytes), leaderEpoch, origin,
            RequestLocal.noCaching(), guard, transactionVersion));
    }

    private static String appended(LogAppendInfo info) {
        return "first=" + info.firstOffset() + " last=" + info.lastOffset() + " time=" + info.logAppendTime();
    }

    private String verify(long producerId, int sequence, short epoch, boolean supportsEpochBump) {
        VerificationGuard guard = log.maybeStartTransactionVerification(producerId, sequence, epoch, supportsEpochBump);
        guards.put(producerId, guard);
        return guard == VerificationGuard.SENTINEL ? "no guard" : "guard";
    }

    private static int batchIndex(RecordError error) {
        return error.batchIndex;
    }

    private static ByteBuffer bytes(String base64) {
        return ByteBuffer.wrap(Base64.getDecoder().decode(base64));
    }

    // --- offsets and reading ---

    private String incrementHighWatermark(long offset) throws IOException {
        return log.maybeIncrementHighWatermark(log.maybeConvertToOffsetMetadata(offset)).map(DrivenLog::place).orElse("none");
    }

    /** The last stable offset follows with the next high watermark that a leader sends. */
    private String truncate(long offset) throws IOException {
        boolean truncated = log.truncateTo(offset);
        cleaner.cut(offset);
        log.updateHighWatermark(batchStart(log.highWatermark()));
        return String.valueOf(truncated);
    }

    private String truncateFully(long offset, Optional<Long> logStartOffset) {
        log.truncateFullyAndStartAt(offset, logStartOffset);
        cleaner.cut(offset);
        return "done";
    }

    /**
     * The base offset of the batch that holds an offset, the log start if that is above; the log end if that batch begins
     * below the log start. Looking for a place moves a high watermark to it, so one within a batch would fall.
     */
    private long batchStart(long offset) throws IOException {
        long start = log.maybeConvertToOffsetMetadata(Math.max(offset, log.logStartOffset())).messageOffset;
        return start < log.logStartOffset() ? log.logEndOffset() : start;
    }

    private String offsetForTimestamp(long timestamp) {
        return log.fetchOffsetByTimestamp(timestamp, Optional.empty()).timestampAndOffsetOpt()
            .map(found -> found.offset < log.logStartOffset() ? "gone" : found.timestamp + " at " + found.offset
                + (found.timestamp < 0 ? " epoch " + found.leaderEpoch.orElse(-1) : "")).orElse("none");
    }

    /** Where nothing may be read, Kafka calls a batch behind the limit incomplete or not by how it found that out. */
    private static String read(FetchDataInfo read) throws IOException {
        boolean incomplete = read.firstEntryIncomplete && read.records.sizeInBytes() > 0;
        String aborted = read.abortedTransactions.filter(list -> read.records.sizeInBytes() > 0).map(list -> list.stream()
            .map(one -> one.producerId() + ":" + one.firstOffset()).collect(Collectors.joining(","))).orElse("none");
        return position(read.fetchOffsetMetadata) + " bytes=" + read.records.sizeInBytes() + " sha256=" + sha256(read.records)
            + " incomplete=" + incomplete + " aborted=[" + aborted + "]";
    }

    private static String sha256(Records records) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(records.sizeInBytes());
        if (records instanceof FileRecords file) {
            file.readInto(bytes, 0);
        }
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            return HexFormat.of().formatHex(digest.digest(bytes.array()), 0, 8);
        } catch (NoSuchAlgorithmException error) {
            throw new AssertionError(error);
        }
    }

    private String producers() {
        return log.activeProducers().stream().sorted(Comparator.comparingLong(ProducerState::producerId))
            .map(one -> one.producerId() + " epoch " + one.producerEpoch() + " sequence " + one.lastSequence() + " at "
                + one.lastTimestamp() + " coordinator " + one.coordinatorEpoch() + " since " + one.currentTxnStartOffset())
            .collect(Collectors.joining("; ", "producers: ", ""));
    }

    private String state() {
        if (log == null) {
            return "none";
        }
        try {
            LogOffsetSnapshot offsets = log.fetchOffsetSnapshot();
            String segments = log.logSegments().stream().map(one -> String.valueOf(one.baseOffset()))
                .collect(Collectors.joining(","));
            return "start=" + offsets.logStartOffset() + " stable=" + place(offsets.lastStableOffset()) + " high="
                + place(offsets.highWatermark()) + " end=" + place(offsets.logEndOffset()) + " recovery=" + log.recoveryPoint()
                + " epoch=" + log.latestEpoch().orElse(-1) + " segments=" + segments;
        } catch (IOException | ApiException error) {
            return error.getClass().getSimpleName();
        }
    }

    private static String place(LogOffsetMetadata offset) {
        return offset.messageOffset + position(offset);
    }

    private static String position(LogOffsetMetadata offset) {
        return "@" + offset.segmentBaseOffset + "+" + offset.relativePositionInSegment;
    }

    private static long number(String word) {
        return Long.parseLong(word);
    }

    private static Optional<Long> optional(String word) {
        return word.equals("null") ? Optional.empty() : Optional.of(number(word));
    }

    private static String done(Runnable... works) {
        for (Runnable work : works) {
            work.run();
        }
        return "done";
    }
}
