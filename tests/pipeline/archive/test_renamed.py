"""A node that was given another name leaves nothing behind."""

from pathlib import Path

from arauto.pipeline.renamed import export_renamed
from arauto.storage import segments
from tests.integration.conftest import make_config
from tests.pipeline.feed import Feed, message


def test_what_was_written_under_an_earlier_name_is_exported_once(
    feed: Feed, tmp_path: Path
) -> None:
    feed.write(message(1), message(2), message(3), node="old")
    feed.export("old", rows_max=2)
    feed.write(message(4), message(5), node="old")
    feed.write(message(6), node="new")
    storage = {"kind": "sqlite", "dataDir": str(tmp_path / "data")}
    on = {"export": {"enabled": True}}
    config = make_config(storage=storage, node={"name": "new"}, journal=on)
    assert export_renamed(config, feed.segments) == ["old"]
    assert [(s.first, s.last) for s in segments.segments(feed.segments, "old")][-1][1] == 5
    # That of its present name is the node's own to export.
    assert segments.segments(feed.segments, "new") == []
    assert export_renamed(config, feed.segments) == []


def test_one_name_that_cannot_be_exported_keeps_no_other_back(feed: Feed, tmp_path: Path) -> None:
    for name in ("oldest", "old", "new"):
        feed.write(message(1), node=name)
    storage = {"kind": "sqlite", "dataDir": str(tmp_path / "data")}
    on = {"export": {"enabled": True}}
    config = make_config(storage=storage, node={"name": "new"}, journal=on)
    with segments.lock(feed.segments, "old"):
        assert export_renamed(config, feed.segments) == ["oldest"]
    assert export_renamed(config, feed.segments) == ["old"]


def test_other_names_in_a_database_of_several_nodes_are_other_nodes(tmp_path: Path) -> None:
    assert export_renamed(make_config(storage={"kind": "postgres"}), tmp_path) == []
