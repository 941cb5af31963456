package tidelog.spark;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Sentences that the user should see although the read goes on. */
final class Warnings {
    private static final Logger LOG = LoggerFactory.getLogger("tidelog.spark");

    private Warnings() {}

    static void warn(String sentence) {
        LOG.warn(sentence);
    }
}
