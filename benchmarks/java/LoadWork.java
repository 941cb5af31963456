import java.io.File;
import org.apache.kafka.server.util.FileLock;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * A broker's work on its logs at its start: {@code load logDirectory threads stop|drop}. The directory's marker
 * tells if the last shutdown was clean. Then, untimed, the logs are shut down cleanly, or closed without a flush.
 */
final class LoadWork implements Peer.Work {
    private KafkaScheduler scheduler;
    private LogManager manager;

    @Override
    public void prepare(String[] arguments) {
        scheduler = new KafkaScheduler(1, true);
        scheduler.startup();
    }

    @Override
    public Peer.Done run(String[] arguments) throws Exception {
        manager = Managers.open(new File(arguments[0]), scheduler, Integer.parseInt(arguments[1]));
        Managers.load(manager);
        long records = 0;
        for (UnifiedLog log : manager.allLogs()) {
            records += log.logEndOffset();
        }
        return new Peer.Done(0, records);
    }

    @Override
    public void finish(String[] arguments) throws Exception {
        if (arguments[2].equals("stop")) {
            manager.shutdown(-1);
        } else {
            for (UnifiedLog log : manager.allLogs()) {
                log.prepareActiveSegmentForClose();
                log.close();
            }
            for (FileLock lock : manager.dirLocks()) {
                lock.destroy();
            }
        }
        scheduler.shutdown();
        manager = null;
    }
}
