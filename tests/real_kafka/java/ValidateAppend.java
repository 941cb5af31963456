import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.requests.ProduceResponse.RecordError;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.record.BrokerCompressionType;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Validates appends by Kafka's {@code LogValidator}: {@code ValidateAppend file}. Each line of the file is one append, in
 * words separated by spaces.
 *
 * <p>The first words are target codec, level, compacted, magic, timestamp type, before max ms and after max ms. Then come
 * leader epoch, origin, first offset, now ms and the batches in base64.
 *
 * <p>It prints a line for each. After {@code ok} come the batches in base64, next offset, max timestamp, size maybe
 * changed, temporary bytes and records converted. After {@code refused} come the error's class and number, then the
 * indexes of the refused records. The last words count the records that were refused for their format, offset,
 * sequence, checksum and missing key.
 */
public final class ValidateAppend {
    private ValidateAppend() {
    }

    public static void main(String[] arguments) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            out.append(answer(line.split(" "))).append('\n');
        }
        System.out.print(out);
    }

    private static String answer(String[] words) {
        Counts counts = new Counts();
        try {
            return validated(words, counts);
        } catch (RecordValidationException error) {
            String indexes = error.recordErrors().stream()
                .map((RecordError one) -> String.valueOf(one.batchIndex)).collect(Collectors.joining(","));
            return refused(error.invalidException(), indexes, counts);
        } catch (RuntimeException | OutOfMemoryError error) {
            return refused(error, "-", counts);
        }
    }

    private static String refused(Throwable error, String indexes, Counts counts) {
        return "refused " + error.getClass().getSimpleName() + " " + Errors.forException(error).code() + " "
            + indexes + " " + counts;
    }

    private static String validated(String[] words, Counts counts) {
        byte[] bytes = words.length > 11 ? Base64.getDecoder().decode(words[11]) : new byte[0];
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        CompressionType source = CompressionType.NONE;
        for (RecordBatch batch : records.batches()) {
            if (batch.compressionType() != CompressionType.NONE) {
                source = batch.compressionType();
            }
        }
        long now = Long.parseLong(words[10]);
        PrimitiveRef.LongRef offset = PrimitiveRef.ofLong(Long.parseLong(words[9]));
        LogValidator validator = new LogValidator(
            records,
            new TopicPartition("topic", 0),
            fixed(now),
            source,
            BrokerCompressionType.targetCompression(configured(words[0], words[1]), source),
            Boolean.parseBoolean(words[2]),
            Byte.parseByte(words[3]),
            TimestampType.forName(words[4]),
            Long.parseLong(words[5]),
            Long.parseLong(words[6]),
            Integer.parseInt(words[7]),
            AppendOrigin.valueOf(words[8]));
        LogValidator.ValidationResult result =
            validator.validateMessagesAndAssignOffsets(offset, counts, BufferSupplier.NO_CACHING);
        ByteBuffer buffer = result.validatedRecords().buffer();
        byte[] stored = new byte[buffer.remaining()];
        buffer.get(stored);
        return "ok " + Base64.getEncoder().encodeToString(stored) + " " + offset.value + " " + result.maxTimestampMs() + " "
            + result.messageSizeMaybeChanged() + " " + result.recordValidationStats().temporaryMemoryBytes() + " "
            + result.recordValidationStats().numRecordsConverted();
    }

    private static Optional<Compression> configured(String name, String level) {
        if (name.equals("producer")) {
            return Optional.empty();
        }
        int number = Integer.parseInt(level);
        return Optional.of(switch (name) {
            case "gzip" -> Compression.gzip().level(number).build();
            case "lz4" -> Compression.lz4().level(number).build();
            case "zstd" -> Compression.zstd().level(number).build();
            case "snappy" -> Compression.snappy().build();
            default -> Compression.NONE;
        });
    }

    private static Time fixed(long now) {
        return new Time() {
            @Override
            public long milliseconds() {
                return now;
            }

            @Override
            public long nanoseconds() {
                return 0;
            }

            @Override
            public void sleep(long ms) {
                throw new UnsupportedOperationException();
            }

            @Override
            public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
                throw new UnsupportedOperationException();
            }
        };
    }

    private static final class Counts implements LogValidator.MetricsRecorder {
        private int magic;
        private int offset;
        private int sequence;
        private int checksums;
        private int noKey;

        @Override
        public void recordInvalidMagic() {
            magic++;
        }

        @Override
        public void recordInvalidOffset() {
            offset++;
        }

        @Override
        public void recordInvalidSequence() {
            sequence++;
        }

        @Override
        public void recordInvalidChecksums() {
            checksums++;
        }

        @Override
        public void recordNoKeyCompactedTopic() {
            noKey++;
        }

        @Override
        public String toString() {
            return magic + "," + offset + "," + sequence + "," + checksums + "," + noKey;
        }
    }
}
