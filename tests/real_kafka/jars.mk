# Jars by Maven coordinates, a set for each release, copied once into the git-ignored .cache/, and our small Java programs
# compiled against them. Included by the Makefile.
#
# NEWEST is the Kafka that tidelog is held against. Its command line tools are not on Maven Central, so they are those of
# TOOLS. The older ones are there for directories that they wrote, for the kafka-dump-log before 4.3, and for a short
# pass of clients and brokers. KRAFT_3 is there for clusters that are mirrored, and
# with ZooKeeper.

KAFKA_NEWEST = 4.4.0
KAFKA_TOOLS = 4.3.1
KAFKA_OLDER = 4.2.0 4.1.0
KAFKA_KRAFT_3 = 3.9.1
KAFKA_RELEASES = $(KAFKA_NEWEST) $(KAFKA_TOOLS) $(KAFKA_OLDER)

# One Maven at a time, because all write into one local repository.
MVN_COPY = mkdir -p .cache && flock .cache/maven.lock mvn --batch-mode --quiet --no-transfer-progress dependency:copy-dependencies
KAFKA_CASES = .cache/kafka-cases-4.1.0
SPARK_KAFKA_JARS = .cache/spark-kafka-4.0.0
LAKE_JARS = .cache/lakes-4.0.0
S3A_JARS = .cache/s3a-3.4.1
MIRROR_MAKER_JARS = .cache/mirror-maker-$(KAFKA_TOOLS)

JAVA_OF_ALL = $(wildcard tests/real_kafka/java/any/*.java)
JAVA_OF_NEWEST = $(wildcard tests/real_kafka/java/*.java benchmarks/java/*.java)
JAVA_OF_TOOLS = $(wildcard benchmarks/java/tools/*.java) benchmarks/java/Peer.java
JAVA_OF_KRAFT_3 = $(wildcard tests/real_kafka/java/zookeeper/*.java)

.PHONY: kafka-jars kafka-3-jars spark-kafka-jars lake-jars s3a-jars mirror-maker-jars

kafka-jars: $(KAFKA_RELEASES:%=.cache/java/%/programs.jar) $(KAFKA_CASES)/.stamp ## fetch Apache Kafka 4.1 to 4.4, which tests and benchmarks run beside tidelog

kafka-3-jars: .cache/java/$(KAFKA_KRAFT_3)/programs.jar ## fetch Apache Kafka 3.9 with ZooKeeper

spark-kafka-jars: $(SPARK_KAFKA_JARS)/.stamp ## fetch Spark's Kafka source, a peer in the benchmarks

lake-jars: $(LAKE_JARS)/.stamp ## fetch the Iceberg and Delta formats of Spark, which the recipes of docs/spark-avro.md need

s3a-jars: $(S3A_JARS)/.stamp ## fetch Hadoop's S3A, by which Spark reads object storage

mirror-maker-jars: $(MIRROR_MAKER_JARS)/.stamp ## fetch Kafka's MirrorMaker 2, a peer in the benchmarks

.cache/kafka-%/.stamp: tests/real_kafka/pom.xml | jvm
	@echo "Fetching the jars of Apache Kafka $*"
	@rm -rf $(@D) && mkdir -p $(@D)
	@$(MVN_COPY) --file $< -Dkafka.version=$* $(if $(filter $*,$(KAFKA_NEWEST) $(KAFKA_KRAFT_3)),,-Dwith-tools) -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

$(KAFKA_CASES)/.stamp: tests/real_kafka/cases/pom.xml
$(SPARK_KAFKA_JARS)/.stamp: benchmarks/spark-kafka/pom.xml
$(LAKE_JARS)/.stamp: tests/spark/lakes/pom.xml
$(S3A_JARS)/.stamp: tests/spark/s3a/pom.xml
$(MIRROR_MAKER_JARS)/.stamp: benchmarks/mirror-maker/pom.xml
$(MIRROR_MAKER_JARS)/.stamp: MVN_SETTINGS = -Dkafka.version=$(KAFKA_TOOLS)

$(KAFKA_CASES)/.stamp $(SPARK_KAFKA_JARS)/.stamp $(LAKE_JARS)/.stamp $(S3A_JARS)/.stamp $(MIRROR_MAKER_JARS)/.stamp: | jvm
	@echo "Fetching the jars of $<"
	@rm -rf $(@D) && mkdir -p $(@D)
	@$(MVN_COPY) --file $< $(MVN_SETTINGS) -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

# A jar, not a directory of classes: the JVM archives classes only from jars. A class archive of other jars goes.
.cache/java/%/programs.jar: .cache/kafka-%/.stamp $(JAVA_OF_ALL) $(JAVA_OF_NEWEST) $(JAVA_OF_TOOLS) $(JAVA_OF_KRAFT_3) tests/real_kafka/jars.mk
	@rm -rf $(@D) && mkdir -p $(@D)/classes
	@javac -nowarn -d $(@D)/classes -cp '.cache/kafka-$*/*' $(JAVA_OF_ALL) \
	    $(if $(filter $*,$(KAFKA_NEWEST)),$(JAVA_OF_NEWEST)) $(if $(filter $*,$(KAFKA_TOOLS)),$(JAVA_OF_TOOLS)) \
	    $(if $(filter $*,$(KAFKA_KRAFT_3)),$(JAVA_OF_KRAFT_3))
	@jar --create --file $@ -C $(@D)/classes .

.SECONDARY:
