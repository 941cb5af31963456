import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;

/**
 * Kafka's command line tools, many in one process: a tool starts in a tenth of the time that a JVM of its own takes.
 *
 * <p>Each line of the input is an object with the {@code tool}, a class, its {@code arguments} and its {@code input}. A
 * line of output for each: its exit {@code code}, and the text that it wrote to {@code out} and {@code err}.
 */
public final class Tools {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static ByteArrayOutputStream written;
    private static ByteArrayOutputStream complained;
    private static ObjectNode ended;

    private Tools() {
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        System.setOut(new PrintStream(OutputStream.nullOutputStream())); // threads may write after their tool has ended
        endInstead("setExitProcedure");
        endInstead("setHaltProcedure");
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(run((ObjectNode) JSON.readTree(line))));
            answers.flush();
        }
    }

    /** Kafka 4.4 has its Exit class in another package than older releases. */
    private static void endInstead(String setter) throws Exception {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException older) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object end = Proxy.newProxyInstance(Tools.class.getClassLoader(), new Class<?>[] {procedure}, (self, method, given) -> {
            end((int) given[0]);
            return null;
        });
        exit.getMethod(setter, procedure).invoke(null, end);
    }

    /** A tool may catch the exception that ends it, print it, and end once more: the first exit code counts. */
    private static void end(int code) {
        if (ended == null) {
            ended = told(code);
        }
        throw new Ended();
    }

    private static ObjectNode run(ObjectNode request) throws Exception {
        String[] arguments = JSON.convertValue(request.get("arguments"), String[].class);
        PrintStream out = System.out;
        PrintStream err = System.err;
        InputStream in = System.in;
        written = new ByteArrayOutputStream();
        complained = new ByteArrayOutputStream();
        ended = null;
        try {
            System.setIn(new ByteArrayInputStream(request.get("input").asText().getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(written, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
            Class.forName(request.get("tool").asText()).getMethod("main", String[].class)
                .invoke(null, (Object) arguments);
            return ended == null ? told(0) : ended;
        } catch (InvocationTargetException failure) {
            failure.getCause().printStackTrace(System.err);
            return ended == null ? told(1) : ended;
        } finally {
            System.setIn(in);
            System.setOut(out);
            System.setErr(err);
        }
    }

    private static ObjectNode told(int code) {
        return JSON.createObjectNode().put("code", code)
            .put("out", written.toString(StandardCharsets.UTF_8))
            .put("err", complained.toString(StandardCharsets.UTF_8));
    }

    private static final class Ended extends RuntimeException {
    }
}
