package tidelog.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The driver's end of the planner, which is a Python process: requests and replies are lines of JSON.
 *
 * <p>The process starts with the first request, serves all reads of this JVM, and ends with it. A request has an id,
 * and its reply names it. So a request does not wait for an earlier one. If the process dies, its requests fail, and the
 * next request starts another process.
 *
 * <p>Thread rule: any thread.
 */
final class Planner {
    static final ObjectMapper JSON = new ObjectMapper();

    private static final String MODULE = "tidelog.spark.jvm.plan_server";

    private static Planner running;

    private final Process process;
    private final String interpreter;
    private final BufferedWriter requests;
    private final Map<Long, CompletableFuture<JsonNode>> pending = new ConcurrentHashMap<>();
    private final AtomicLong lastId = new AtomicLong();

    private Planner(String interpreter) {
        this.interpreter = interpreter;
        ProcessBuilder builder = new ProcessBuilder(interpreter, "-m", MODULE);
        builder.redirectError(ProcessBuilder.Redirect.INHERIT);
        try {
            process = builder.start();
        } catch (IOException error) {
            throw new TidelogException("The planner of format tidelog can't run " + interpreter + ": "
                    + error.getMessage() + "; set spark.pyspark.driver.python to an interpreter that has tidelog", error);
        }
        requests = new BufferedWriter(new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8));
        Thread reader = new Thread(this::readReplies, "tidelog-planner");
        reader.setDaemon(true);
        reader.start();
    }

    /** Return the planner of this JVM, which is started if it is not running. */
    static synchronized Planner running() {
        if (running == null || !running.process.isAlive()) {
            running = new Planner(Interpreter.chosen());
        }
        return running;
    }

    static ObjectNode request(String name) {
        return JSON.createObjectNode().put("request", name);
    }

    static JsonNode optionsOf(Map<String, String> options) {
        return JSON.valueToTree(options);
    }

    /** Return the result of a request. Throw TidelogException with the planner's sentence if it refuses. */
    JsonNode ask(ObjectNode request) {
        long id = lastId.incrementAndGet();
        CompletableFuture<JsonNode> reply = new CompletableFuture<>();
        pending.put(id, reply);
        try {
            send(request.put("id", id));
            JsonNode found = reply.get();
            if (found.has("error")) {
                throw new TidelogException(found.get("error").asText());
            }
            return found.get("result");
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new TidelogException("The read was interrupted while it was planned", error);
        } catch (ExecutionException error) {
            throw new TidelogException(error.getCause().getMessage(), error);
        } finally {
            pending.remove(id);
        }
    }

    /** Send a request whose outcome does not matter: the process may have ended, and everything with it. */
    void close(ObjectNode request) {
        try {
            ask(request);
        } catch (TidelogException error) {
            Warnings.warn(error.getMessage());
        }
    }

    private void send(ObjectNode request) {
        try {
            String line = JSON.writeValueAsString(request);
            synchronized (requests) {
                requests.write(line);
                requests.write('\n');
                requests.flush();
            }
        } catch (IOException error) {
            throw new TidelogException(ended(), error);
        }
    }

    private void readReplies() {
        try (BufferedReader replies =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = replies.readLine(); line != null; line = replies.readLine()) {
                JsonNode reply = JSON.readTree(line);
                CompletableFuture<JsonNode> waiting = pending.get(reply.get("id").asLong());
                if (waiting != null) {
                    waiting.complete(reply);
                }
            }
        } catch (IOException error) {
            process.destroy();
        } finally {
            awaitEnd();
            TidelogException error = new TidelogException(ended());
            pending.values().forEach(waiting -> waiting.completeExceptionally(error));
        }
    }

    private void awaitEnd() {
        try {
            process.waitFor();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private String ended() {
        return "The planner of format tidelog ended: " + interpreter + " -m " + MODULE + " (its last lines are in the "
                + "driver's log); set spark.pyspark.driver.python to an interpreter that has tidelog";
    }
}
