# Jars by Maven coordinates, each set copied once into the git-ignored .cache/, and our small Java programs compiled
# against them. Included by the Makefile.

MVN_COPY = mvn --batch-mode --quiet --no-transfer-progress dependency:copy-dependencies
KAFKA_JARS = .cache/kafka-4.1.0
KAFKA_CASES = .cache/kafka-cases-4.1.0
SPARK_KAFKA_JARS = .cache/spark-kafka-4.0.0
JAVA_JAR = .cache/java/programs.jar
JAVA_SOURCES = $(wildcard tests/real_kafka/java/*.java benchmarks/java/*.java)

.PHONY: kafka-jars spark-kafka-jars

kafka-jars: $(JAVA_JAR) $(KAFKA_CASES)/.stamp ## fetch Apache Kafka 4.1.0, which tests and benchmarks run beside tidelog

spark-kafka-jars: $(SPARK_KAFKA_JARS)/.stamp ## fetch Spark's Kafka source, a peer in the benchmarks

$(KAFKA_JARS)/.stamp: tests/real_kafka/pom.xml
$(KAFKA_CASES)/.stamp: tests/real_kafka/cases/pom.xml
$(SPARK_KAFKA_JARS)/.stamp: benchmarks/spark-kafka/pom.xml

$(KAFKA_JARS)/.stamp $(KAFKA_CASES)/.stamp $(SPARK_KAFKA_JARS)/.stamp: | prerequisites
	@echo "Fetching the jars of $<"
	@rm -rf $(@D) && mkdir -p $(@D)
	@$(MVN_COPY) --file $< -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

# A jar, not a directory of classes: the JVM archives classes only from jars.
$(JAVA_JAR): $(KAFKA_JARS)/.stamp $(JAVA_SOURCES)
	@rm -rf $(@D) && mkdir -p $(@D)/classes
	@javac -nowarn -d $(@D)/classes -cp '$(KAFKA_JARS)/*' $(JAVA_SOURCES)
	@jar --create --file $@ -C $(@D)/classes .
