import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import kafka.server.ControllerConfigurationValidator;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints Kafka's own tables of its configuration keys as JSON lines.
 *
 * <p>{@code ConfigKeys}: a line for each key of the broker, topics, groups, client metrics, quotas and clients. For a
 * list, it also has the reasons why Kafka refuses a list without items and an empty item, and tells if repeated items
 * are dropped. {@code ConfigKeys file}: each line of the file is an object with {@code kind}, {@code properties} and the
 * fields of the kind. The line printed for it has Kafka's {@code error}, or the {@code values} that Kafka has read.
 * <ul>
 * <li>{@code broker}: a whole properties file; also prints the {@code defaults} of topics
 * <li>{@code topic}: settings of a topic; with {@code broker}, over its defaults; {@code before} has the earlier ones
 * <li>{@code dynamic}: a change at run time, for all brokers where {@code of_all} is true
 * <li>{@code resource}: settings of the resource {@code type} and {@code name}, at a controller with {@code broker}
 * </ul>
 */
public final class ConfigKeys {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ConfigKeys() {
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            printKeys();
        } else {
            for (String line : Files.readAllLines(Path.of(arguments[0]))) {
                System.out.println(JSON.writeValueAsString(checked((ObjectNode) JSON.readTree(line))));
            }
        }
    }

    private static void printKeys() throws IOException {
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (ConfigDef.ConfigKey key : new TreeMap<>(KafkaConfig.configDef().configKeys()).values()) {
            ObjectNode node = described("broker", key);
            node.put("mode", modes.getOrDefault(key.name, "read-only"));
            print(node);
        }
        for (ConfigDef.ConfigKey key : new TreeMap<>(LogConfig.configKeys()).values()) {
            ObjectNode node = described("topic", key);
            var synonyms = ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.get(key.name);
            node.put("synonyms", synonyms == null ? "" : synonyms.stream()
                .map(synonym -> synonym.name()).collect(Collectors.joining(",")));
            print(node);
        }
        printTable("group", GroupConfig.CONFIG_DEF);
        printTable("metrics", ClientMetricsConfigs.configDef());
        printTable("client-quota", QuotaConfig.userAndClientQuotaConfigs());
        printTable("address-quota", QuotaConfig.ipConfigs());
        printTable("rate", QuotaConfig.brokerQuotaConfigs());
        printTable("admin-client", AdminClientConfig.configDef());
        printTable("consumer", ConsumerConfig.configDef());
    }

    private static void printTable(String kind, ConfigDef table) throws IOException {
        for (ConfigDef.ConfigKey key : new TreeMap<>(table.configKeys()).values()) {
            print(described(kind, key));
        }
    }

    private static ObjectNode described(String kind, ConfigDef.ConfigKey key) {
        ObjectNode node = JSON.createObjectNode();
        node.put("kind", kind);
        node.put("name", key.name);
        node.put("type", key.type.name());
        node.put("required", key.defaultValue == ConfigDef.NO_DEFAULT_VALUE);
        node.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        node.put("valid", key.validator == null ? null : key.validator.toString());
        node.put("importance", key.importance.name());
        node.put("internal", key.internalConfig);
        if (key.type == ConfigDef.Type.LIST) {
            node.put("of_nothing", refusal(key, List.of()));
            node.put("of_an_empty_item", refusal(key, List.of("")));
            node.put("drops_duplicates", key.validator instanceof ConfigDef.ValidList);
        }
        return node;
    }

    /** Returns the reason why the key refuses a value, or null if it accepts the value. */
    private static String refusal(ConfigDef.ConfigKey key, Object value) {
        try {
            if (key.validator != null) {
                key.validator.ensureValid(key.name, value);
            }
            return null;
        } catch (RuntimeException refused) {
            return refused.getMessage();
        }
    }

    private static ObjectNode checked(ObjectNode request) {
        Properties properties = properties(request, "properties");
        ObjectNode answer = JSON.createObjectNode();
        try {
            switch (request.get("kind").asText()) {
                case "topic" -> checkTopic(request, properties, answer);
                case "broker" -> checkBroker(properties, answer);
                case "resource" -> checkResource(request, properties);
                default -> DynamicBrokerConfig.validateConfigs(
                    properties, properties, !request.get("of_all").asBoolean());
            }
        } catch (RuntimeException refusal) {
            answer.put("error", refusal.getMessage());
            answer.put("code", (refusal instanceof ConfigException ? Errors.INVALID_CONFIG
                : ApiError.fromThrowable(refusal).error()).code());
        }
        return answer;
    }

    private static Map<String, String> texts(Properties properties) {
        Map<String, String> texts = new HashMap<>();
        properties.forEach((key, value) -> texts.put((String) key, (String) value));
        return texts;
    }

    private static void checkTopic(ObjectNode request, Properties properties, ObjectNode answer) {
        Map<String, Object> defaults = new HashMap<>();
        if (request.has("broker")) {
            KafkaConfig config = KafkaConfig.fromProps(properties(request, "broker"), false);
            defaults.putAll(config.extractLogConfigMap());
            LogConfig.validate(
                texts(properties(request, "before")), texts(properties), defaults, config.remoteLogManagerConfig().isRemoteStorageSystemEnabled());
        } else {
            LogConfig.validate(texts(properties));
        }
        LogConfig read = LogConfig.fromProps(defaults, properties);
        values(answer, LogConfig.configDefCopy(), read.values());
        answer.put("local.retention.ms", read.localRetentionMs());
        answer.put("local.retention.bytes", read.localRetentionBytes());
        answer.put("overrides", read.overriddenConfigsAsLoggableString());
    }

    private static void checkBroker(Properties properties, ObjectNode answer) {
        KafkaConfig config = KafkaConfig.fromProps(properties, false);
        LogConfig.validateBrokerLogConfigValues(
            config.extractLogConfigMap(), config.remoteLogManagerConfig().isRemoteStorageSystemEnabled());
        values(answer, KafkaConfig.configDef(), config.values());
        ObjectNode defaults = answer.putObject("defaults");
        config.extractLogConfigMap().forEach((name, value) -> defaults.put(
            name, ConfigDef.convertToString(value, LogConfig.configKeys().get(name).type)));
    }

    private static void checkResource(ObjectNode request, Properties properties) {
        Map<String, String> after = new HashMap<>();
        properties.forEach((key, value) -> after.put((String) key, (String) value));
        KafkaConfig broker = KafkaConfig.fromProps(properties(request, "broker"), false);
        new ControllerConfigurationValidator(broker).validate(
            new ConfigResource(
                ConfigResource.Type.forId((byte) request.get("type").asInt()), request.get("name").asText()),
            after,
            Map.of());
    }

    private static Properties properties(ObjectNode request, String name) {
        Properties properties = new Properties();
        if (request.has(name)) {
            request.get(name).properties().forEach(
                entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        }
        return properties;
    }

    private static void values(ObjectNode answer, ConfigDef definition, Map<String, ?> values) {
        ObjectNode texts = answer.putObject("values");
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            texts.put(key.name, ConfigDef.convertToString(values.get(key.name), key.type));
        }
    }

    private static void print(ObjectNode node) throws IOException {
        System.out.println(JSON.writeValueAsString(node));
    }
}
