"""Where rules get their rows from: the journal's database."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

from arauto.config.addresses import postgres_url
from arauto.config.schema import Config
from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.coverage import Coverage
from arauto.pipeline.source.datasource import ArautoDataSource
from arauto.storage import migrate
from arauto.storage.sqlite import DATABASE_NAME

__all__ = ["journal_stream", "journal_url"]


def journal_stream(
    spark: SparkSession,
    url: str,
    segments: Path | None,
    *,
    rows_max: int,
    kinds: str = "",
    starting: str = "earliest",
    idle_s: int = 0,
    settled: bool = False,
    gate: Path | None = None,
    expired: Mapping[str, Coverage] | None = None,
) -> DataFrame:
    """Journal rows within a second or two of their commit; `expired` ones are passed over."""
    spark.dataSource.register(ArautoDataSource)
    options = {
        "url": url,
        "rowsPerBatch": str(rows_max),
        "kinds": kinds,
        "startingOffsets": starting,
        "idleSeconds": str(idle_s),
        "settled": str(settled).lower(),
    }
    if gate is not None:
        options["gate"] = str(gate)
    if expired:
        options["expired"] = msgspec.json.encode(expired).decode()
    if segments is not None:
        options["segments"] = str(segments)
    return spark.readStream.format("arauto").options(**options).load()


def journal_url(config: Config) -> str:
    """The database that holds the journal.

    Raises:
        ArautoError: BAD_CONFIG, it is kept in memory, where nobody else can read it.
    """
    match config.storage.kind:
        case "postgres":
            return postgres_url(config.storage.postgres)
        case "sqlite":
            return migrate.sqlite_url(Path(config.storage.data_dir).resolve() / DATABASE_NAME)
        case _:
            raise ArautoError(
                Code.BAD_CONFIG,
                "the pipeline needs a journal on disk: storage.kind sqlite or postgres",
                field="storage.kind",
            )
