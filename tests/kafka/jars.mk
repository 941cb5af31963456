# Jars by Maven coordinates, each set copied once into the git-ignored .cache/. Included by the Makefile.

MVN_COPY = mvn --batch-mode --quiet --no-transfer-progress dependency:copy-dependencies
KAFKA_JARS = .cache/kafka-4.1.0
SPARK_KAFKA_JARS = .cache/spark-kafka-4.0.0

.PHONY: kafka-jars spark-kafka-jars

kafka-jars: $(KAFKA_JARS)/.stamp  ## fetch Apache Kafka 4.1.0 (tests and benchmarks run it)

spark-kafka-jars: $(SPARK_KAFKA_JARS)/.stamp  ## fetch Spark's Kafka source (a benchmark's peer)

$(KAFKA_JARS)/.stamp: tests/kafka/pom.xml
$(SPARK_KAFKA_JARS)/.stamp: benchmarks/spark/pom.xml

.cache/%/.stamp:
	@rm -rf $(@D) && mkdir -p $(@D)
	$(MVN_COPY) --file $< -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@
