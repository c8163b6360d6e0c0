"""A pipeline whose Java is gone cannot do anything, so it does not stay."""

from pathlib import Path

from arauto.pipeline.lifeline import ENDS_OUT_OF_MEMORY
from tests.pipeline.crash.world import World


def test_a_pipeline_whose_java_was_killed_ends_soon_and_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        world.start_pipeline()
        world.until(lambda: world.shows("query_running", "archive") == 1, "the archive runs")
        # Out of memory it would go on with whatever threads are left, and only look alive.
        assert ENDS_OUT_OF_MEMORY in world.kill_java()
        world.until(lambda: world.pipeline_ended, "the pipeline ends")
        assert world.exit_code == 1
        assert "[8010 SPARK_ENDED] Spark has ended: Java was ended by signal SIGKILL" in (
            world.log("pipeline")
        )
        # A call that was cut off is a record in the log; the command itself ends with one line.
        assert "\nTraceback" not in world.log("pipeline")
    finally:
        world.close()
