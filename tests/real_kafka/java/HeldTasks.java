import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.server.util.Scheduler;

/**
 * A scheduler without threads. Tasks without a delay run between two operations. Deletions run once they are due and an
 * operation runs them. Periodic tasks and the flush after a roll never run.
 */
final class HeldTasks implements Scheduler {
    private final ManualTime time;
    private final List<Task> tasks = new ArrayList<>();

    private record Task(Runnable work, long dueMs, boolean isDeletion) {
    }

    HeldTasks(ManualTime time) {
        this.time = time;
    }

    @Override
    public ScheduledFuture<?> schedule(String name, Runnable work, long delayMs, long periodMs) {
        if (periodMs < 0 && !name.equals("flush-log")) {
            tasks.add(new Task(work, time.milliseconds() + delayMs, name.startsWith("delete-")));
        }
        return new Done();
    }

    /** The tasks without a delay. */
    void runImmediate() {
        run(tasks.stream().filter(task -> !task.isDeletion).toList());
    }

    /** All of them, due or not. */
    void runDeletions() {
        run(tasks.stream().filter(Task::isDeletion).toList());
    }

    void runDueDeletions() {
        run(tasks.stream().filter(task -> task.isDeletion && task.dueMs <= time.milliseconds()).toList());
    }

    /** As when the process ends. */
    void forget() {
        tasks.clear();
    }

    private void run(List<Task> due) {
        tasks.removeAll(due);
        due.forEach(task -> task.work.run());
    }

    @Override
    public void startup() {
    }

    @Override
    public void shutdown() {
    }

    @Override
    public void resizeThreadPool(int threads) {
    }

    private static final class Done extends CompletableFuture<Void> implements ScheduledFuture<Void> {
        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }
    }
}
