"""The flights demo: from a killed broker's disk to a table, Parquet and a chart, with no broker.

Run by ``make demo``. Every step prints the command or call it makes and how long it took.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console
from rich.table import Table

import tidelog
import tidelog.spark

HERE = Path(__file__).parent
FLIGHT = "date string, delay int, distance int, origin string, destination string"
AIRPORT = "iata string, name string, city string, state string"
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
console = Console(highlight=False)
timings: list[tuple[str, float]] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workspace", type=Path, default=Path("build/demo"), help="where to unpack and to write")
    workspace: Path = parser.parse_args().workspace
    with step("Unpack the disk of a broker that was killed with kill -9"):
        disk = unpack(workspace)
    with step("Repair it: what a broker would do at its next start, first as a plan"):
        tidelog_command("recover", disk)
        tidelog_command("recover", disk, "--apply")
    with step("Check every CRC, index, snapshot and checkpoint"):
        tidelog_command("verify", disk)
    with step("Count exactly: committed, aborted, control, tombstones"):
        tidelog_command("count", disk)
    with step("Start Spark"):
        spark = start_spark()
    with step("Average delay by origin and month, joined with the newest row per airport"):
        delays = delays_by_origin_and_month(spark, disk).cache()
        print_delays(delays)
        delays.write.mode("overwrite").parquet(str(workspace / "delays.parquet"))
        draw(delays, workspace / "delays.png")
        console.print(f"  wrote {workspace / 'delays.parquet'} and {workspace / 'delays.png'}")
    with step("Transactions: committed against uncommitted rows of flights-eos"):
        compare_isolation_levels(spark, disk)
    with step("Append 1,000 flights through the API; the pipeline sees them"):
        append_flights(spark, disk)
    spark.stop()
    print_timings()


@contextmanager
def step(title: str) -> Iterator[None]:
    console.rule(f"[bold]{len(timings) + 1}. {title}", align="left")
    began = time.perf_counter()
    yield
    took = time.perf_counter() - began
    timings.append((title, took))
    console.print(f"  [dim]{took:.1f} s[/dim]\n")


def unpack(workspace: Path) -> Path:
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir(parents=True)
    with tarfile.open(HERE / "broker-disk.tar.gz") as archive:
        archive.extractall(workspace, filter="data")
    disk = workspace / "unclean"
    files = [path for path in disk.rglob("*") if path.is_file()]
    console.print(f"  {disk}: {len(files)} files, {sum(path.stat().st_size for path in files):,} bytes")
    return disk


def tidelog_command(*arguments: object) -> None:
    words = [str(word) for word in arguments]
    console.print(f"  [bold cyan]$ tidelog {' '.join(words)}")
    # verify says what it finds by exit code 1; anything worse ends the demo.
    code = subprocess.run([sys.executable, "-m", "tidelog.cli.main", *words]).returncode
    if code not in (0, 1):
        sys.exit(code)


def start_spark() -> SparkSession:
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    spark = tidelog.spark.session("flights", config={**quiet, "spark.sql.shuffle.partitions": "4"})
    console.print(f"  Spark {spark.version}, {spark.sparkContext.master}")
    return spark


def read(spark: SparkSession, disk: Path, topic: str, isolation: str = "read_uncommitted") -> DataFrame:
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


def compare_isolation_levels(spark: SparkSession, disk: Path) -> None:
    table = Table("isolation level", "rows", "mean delay, minutes")
    for isolation in ("read_uncommitted", "read_committed"):
        rows = parsed(read(spark, disk, "flights-eos", isolation), FLIGHT)
        count, delay = rows.agg(F.count("*"), F.avg("row.delay")).first() or (0, 0.0)
        table.add_row(isolation, f"{count:,}", f"{delay:.2f}")
    console.print(table)


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
    console.print(f"  appended offsets {offsets[0]:,} to {offsets[-1]:,} of flights-0; rows {before:,} → {after:,}")
    december = delays_by_origin_and_month(spark, disk).where("origin = 'SFO' and month = 12")
    for row in december.collect():
        found = f"{row.flights:,} flights, {row.delay_minutes} minutes late on average"
        console.print(f"  {row.city} in December, from the new rows: {found}")


def print_timings() -> None:
    table = Table("step", "seconds", title="how long each step took")
    for title, took in timings:
        table.add_row(title, f"{took:.1f}")
    table.add_row("[bold]all", f"[bold]{sum(took for _, took in timings):.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
