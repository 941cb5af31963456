import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * In which order a {@code HashMap<Long, ...>} lists its keys: {@code HashOrder file}. Each line of the file is a history
 * of a new map, words like {@code put:7 compute:8 remove:7 clear:0}; prints the keys that are left, a line a history.
 */
public final class HashOrder {
    private HashOrder() {
    }

    public static void main(String[] arguments) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String history : Files.readAllLines(Path.of(arguments[0]))) {
            Map<Long, Boolean> map = new HashMap<>();
            for (String word : history.split(" ")) {
                int colon = word.indexOf(':');
                long key = Long.parseLong(word.substring(colon + 1));
                switch (word.substring(0, colon)) {
                    case "put" -> map.put(key, true);
                    case "compute" -> map.computeIfAbsent(key, absent -> true);
                    case "remove" -> map.keySet().removeIf(other -> other == key);
                    default -> map.clear();
                }
            }
            out.append(map.keySet().stream().map(String::valueOf).collect(Collectors.joining(" "))).append('\n');
        }
        System.out.print(out);
    }
}
