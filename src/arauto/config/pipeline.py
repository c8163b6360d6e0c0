"""Configuration of the data pipeline. The node reads only what it must know of it; Spark reads the rest."""

from typing import Annotated

import msgspec

from arauto.config.base import Count, FilePath, Interval, Port, PositiveCount, Section

__all__ = ["PipelineConfig", "PipelineSqlConfig", "RetentionConfig"]

_Days = Annotated[int, msgspec.Meta(ge=0, le=36_600)]


class RetentionConfig(Section, frozen=True):
    """How long the lake keeps what; whole days, 0 = for ever. `arauto pipeline compact` applies it."""

    bronze_days: _Days = 0
    """The journal as it was received. Replay and audit reach as far back as this."""
    silver_days: _Days = 0
    """Messages, sessions and refusals with typed columns; SQL reads these."""
    gold_days: _Days = 0
    """Roll-ups, fired rules and mined patterns; small."""
    segments_days: _Days = 7
    """Segments the node exported, once they are in the lake."""


class PipelineSqlConfig(Section, frozen=True):
    """Limits of `arauto pipeline sql`."""

    rows_max: PositiveCount = 10_000
    """Rows one query may return."""
    timeout_s: Interval = 60
    """How long one query may run."""


class PipelineConfig(Section, frozen=True):
    """The data pipeline (`arauto pipeline …`), which runs beside the node."""

    lake_dir: FilePath = ""
    """Directory of the lake: tables and checkpoints. Empty = `lake` in `storage.dataDir`."""
    segments_dir: FilePath = ""
    """Where the nodes' exported segments lie. Empty = `segments` in `storage.dataDir`."""
    master: str = "local[*]"
    """Where Spark runs: `local[*]` uses all cores of this machine, `spark://host:port` a cluster."""
    driver_memory_mb: PositiveCount = 1_024
    """Memory of the Spark driver, which does all the work on `local`."""
    spark: dict[str, str] = {}
    """Further Spark settings by name, such as `spark.executor.memory`; they win over Arauto's own."""
    api_url: str = ""
    """The node's admin API, to which results go. Empty = where `admin.host` and `admin.port` say. The
    token is `admin.token`."""
    archive_interval_s: Interval = 5
    """How often new segments are taken into the lake."""
    rollup_interval_s: Interval = 10
    """How often roll-ups are brought up to date."""
    rules_interval_s: Interval = 1
    """How often correlation rules look at new messages. An alert takes about two of these, and the
    watermark."""
    watermark_s: Interval = 1
    """How much later than others a node's rows may arrive and still be matched in order."""
    rows_per_batch_max: PositiveCount = 100_000
    """Rows the rules take from the journal at a time, from each node."""
    alerts_per_s: Count = 1_000
    """Alerts each hub may publish per second, with bursts of ten seconds' worth; 0 = no limit. All hubs'
    alerts go out together, and what is above this is only in the table `matches`."""
    files_per_batch_max: PositiveCount = 40
    """Segments taken into the lake at a time."""
    rollup_channel: str = "analytics:rollup"
    """Channel of each hub to which its roll-ups are published; empty = not published."""
    system_hub: str = "system"
    """Hub whose roll-up channel gets the sums of all hubs. With `engine.allowDynamicHubs` off it is there
    all the same: until it is set up, nobody may do anything in it without a grant."""
    metrics_host: str = "127.0.0.1"
    """Address of the pipeline's own `/metrics`."""
    metrics_port: Port = 4041
    """Port of the pipeline's own `/metrics`; 0 = none."""
    compact_after_files: Count = 64
    """New files in a table after which a running pipeline merges them; 0 = only `compact` does."""
    sql: PipelineSqlConfig = PipelineSqlConfig()
    retention: RetentionConfig = RetentionConfig()
