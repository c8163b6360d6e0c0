"""`arauto pipeline mine`: what it prints."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from arauto.cli.pipeline.mine import _show
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.mining.options import Caps, MiningOptions
from arauto.pipeline.mining.run import mine
from tests.pipeline.mining.frames import messages


def test_patterns_changes_and_bounds_are_printed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Lake(spark, tmp_path)
    options = MiningOptions(
        "shop", "sets", ("payload.items[*]",), caps=Caps(count_min=2, stop_share=1.0)
    )
    rows = [{"body": {"items": ["jam", "\x1b[1mtea"]}} for _ in range(3)]
    lake.table("messages").append(messages(spark, rows), query="test", batch_id=0)
    for _ in range(2):
        _show(Console(width=120), mine(lake, options, now_ms=1), options, 5)
    shown = capsys.readouterr().out
    assert "\\x1b[1mtea + jam" in shown
    assert "jam ⇒ \\x1b[1mtea" in shown
    assert "100%" in shown
    assert "run 1: 3 new, 0 gone, 0 changed" in shown
    assert "run 2: 0 new, 0 gone, 0 changed" in shown
    assert "3 baskets, 3 looked at" in shown
