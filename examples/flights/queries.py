"""The demo's Spark queries over any Kafka data directory, and the display of their results."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from rich.table import Table
from steps import check, console, say

import tidelog
import tidelog.spark

FLIGHT = "date string, delay int, distance int, origin string, destination string"
AIRPORT = "iata string, name string, city string, state string"
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def start_spark() -> SparkSession:
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    spark = tidelog.spark.session("flights", config={**quiet, "spark.sql.shuffle.partitions": "4"})
    say(f"Spark {spark.version}, {spark.sparkContext.master}")
    return spark


def read(spark: SparkSession, disk: Path, topic: str, isolation: str = "read_committed") -> DataFrame:
    return (
        spark.read.format("tidelog")
        .option("logDirs", str(disk))
        .option("subscribe", topic)
        .option("kafka.isolation.level", isolation)
        .load()
    )


def parsed(rows: DataFrame, schema: str) -> DataFrame:
    return rows.select("key", "offset", F.from_json(F.col("value").cast("string"), schema).alias("row"))


def delays_by_origin_and_month(spark: SparkSession, disk: Path) -> DataFrame:
    flights = parsed(read(spark, disk, "flights"), FLIGHT).select(
        "row.origin", "row.delay", F.month(F.to_timestamp("row.date", "yyyy/MM/dd HH:mm")).alias("month")
    )
    newest = Window.partitionBy("key").orderBy(F.desc("offset"))
    airports = (
        parsed(read(spark, disk, "airports"), AIRPORT)
        .withColumn("age", F.row_number().over(newest))
        .where("age = 1 and row is not null")
        .select("row.iata", "row.city", "row.state")
    )
    return (
        flights.join(airports, flights.origin == airports.iata)
        .groupBy("origin", "city", "state", "month")
        .agg(F.count("*").alias("flights"), F.round(F.avg("delay"), 1).alias("delay_minutes"))
    )


def print_delays(delays: DataFrame) -> None:
    busiest = delays.groupBy("origin", "city", "state").agg(F.sum("flights").alias("n")).orderBy(F.desc("n"), "origin")
    months = sorted(row.month for row in delays.select("month").distinct().collect())
    by_airport: dict[str, dict[int, float]] = {}
    for row in delays.collect():
        by_airport.setdefault(row.origin, {})[row.month] = row.delay_minutes
    table = Table("origin", "city", "flights", *(MONTHS[month - 1] for month in months), title="mean delay, minutes")
    for airport in busiest.limit(10).collect():
        cells = [by_airport[airport.origin].get(month) for month in months]
        table.add_row(
            airport.origin,
            f"{airport.city}, {airport.state}",
            f"{airport.n:,}",
            *("–" if cell is None else f"{cell:.1f}" for cell in cells),
        )
    console.print(table)


def draw(delays: DataFrame, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    by_origin: dict[str, list[Row]] = {}
    for row in delays.orderBy("month").collect():
        by_origin.setdefault(row.origin, []).append(row)
    busiest = sorted(by_origin, key=lambda origin: -sum(row.flights for row in by_origin[origin]))[:8]
    figure, axes = pyplot.subplots(figsize=(9, 5))
    for origin in busiest:
        months = [MONTHS[row.month - 1] for row in by_origin[origin]]
        axes.plot(months, [row.delay_minutes for row in by_origin[origin]], marker="o", label=origin)
    axes.set_title("Mean departure delay by origin, 2001")
    axes.set_ylabel("minutes")
    axes.axhline(0, color="grey", linewidth=0.5)
    axes.legend(ncols=2, frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def print_counts(spark: SparkSession, disk: Path, topic: str) -> dict[str, int]:
    """Print and return the number of rows by isolation level."""
    table = Table("isolation level", f"rows of {topic}", "mean delay, minutes")
    found: dict[str, int] = {}
    for isolation in ("read_uncommitted", "read_committed"):
        rows = parsed(read(spark, disk, topic, isolation), FLIGHT)
        found[isolation], delay = rows.agg(F.count("*"), F.avg("row.delay")).first() or (0, 0.0)
        table.add_row(isolation, f"{found[isolation]:,}", f"{delay:.2f}")
    console.print(table)
    return found


def append_flights(spark: SparkSession, disk: Path) -> None:
    before = read(spark, disk, "flights").count()
    values = [
        json.dumps(
            {
                "date": f"2001/12/{day:02d} {hour:02d}:00",
                "delay": delay,
                "distance": 337,
                "origin": "SFO",
                "destination": "LAX",
            }
        ).encode()
        for day, hour, delay in ((1 + n % 31, n % 24, n % 45) for n in range(1000))
    ]
    with tidelog.open_log(disk / "flights-0") as log:
        offsets = log.append_batch(values, keys=[b"SFO"] * len(values))
    after = read(spark, disk, "flights").count()
    say(f"appended offsets {offsets[0]:,} to {offsets[-1]:,} of flights-0")
    check(f"rows {before:,} → {after:,}", after, before + len(values))
    december = delays_by_origin_and_month(spark, disk).where("origin = 'SFO' and month = 12")
    for row in december.collect():
        found = f"{row.flights:,} flights, {row.delay_minutes} minutes late on average"
        say(f"{row.city} in December, from the new rows: {found}")
