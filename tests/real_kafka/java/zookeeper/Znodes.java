import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import kafka.controller.LeaderIsrAndControllerEpoch;
import kafka.zk.BrokerIdZNode;
import kafka.zk.ClusterIdZNode;
import kafka.zk.ConfigEntityZNode;
import kafka.zk.FeatureZNode;
import kafka.zk.ProducerIdBlockZNode;
import kafka.zk.ResourceZNode;
import kafka.zk.TopicPartitionStateZNode;
import kafka.zk.TopicZNode;
import org.apache.zookeeper.data.Stat;

/**
 * Kafka's own codec of znodes: each line of the input is an object with a {@code kind} and the {@code data} of a znode in
 * base64. Kafka decodes the data and encodes its values again. The line of output is the result in base64, or the word
 * "refused" if Kafka does not decode the data.
 */
public final class Znodes {
    private Znodes() {
    }

    public static void main(String[] none) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        ObjectMapper json = new ObjectMapper();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode request = json.readTree(line);
            byte[] data = Base64.getDecoder().decode(request.get("data").asText());
            try {
                out.println(Base64.getEncoder().encodeToString(again(request.get("kind").asText(), data)));
            } catch (Exception refusal) {
                out.println("refused");
            }
        }
    }

    private static byte[] again(String kind, byte[] data) {
        switch (kind) {
            case "topic":
                TopicZNode.TopicIdReplicaAssignment topic = TopicZNode.decode("t", data);
                return TopicZNode.encode(topic.topicId(), topic.assignment());
            case "state":
                LeaderIsrAndControllerEpoch state = TopicPartitionStateZNode.decode(data, new Stat()).get();
                return TopicPartitionStateZNode.encode(state);
            case "config":
                return ConfigEntityZNode.encode(ConfigEntityZNode.decode(data));
            case "broker":
                return BrokerIdZNode.encode(BrokerIdZNode.decode(1, data));
            case "feature":
                return FeatureZNode.encode(FeatureZNode.decode(data));
            case "producer ids":
                return ProducerIdBlockZNode.generateProducerIdBlockJson(ProducerIdBlockZNode.parseProducerIdBlockData(data));
            case "acls":
                return ResourceZNode.encode(ResourceZNode.decode(data, new Stat()).acls());
            case "cluster id":
                return ClusterIdZNode.toJson(ClusterIdZNode.fromJson(data));
            default:
                throw new IllegalArgumentException(kind);
        }
    }
}
