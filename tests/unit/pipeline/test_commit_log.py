"""The log of commits: whole or not at all, one winner, and nothing twice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.log import CommitLog
from arauto.pipeline.lake.manifest import Commit, FileEntry, State, fold, select


def _file(
    name: str, *, rows: int = 1, min_ms: int = 0, max_ms: int = 9, hubs: str = ""
) -> FileEntry:
    first, _, last = hubs.partition("-")
    return FileEntry(
        path=name,
        rows=rows,
        size_bytes=10,
        min_ms=min_ms,
        max_ms=max_ms,
        first_hub=first,
        last_hub=last,
    )


def _batch(batch_id: int, *files: FileEntry, version: int = 1) -> Callable[[State], Commit | None]:
    def decide(state: State) -> Commit | None:
        if batch_id <= state.batches.get("q", -1):
            return None
        return Commit(
            number=state.number + 1,
            made_ms=1,
            schema_version=version,
            query="q",
            batch_id=batch_id,
            added=files,
            coverage={"n": ((batch_id * 10 + 1, batch_id * 10 + 10),)},
            notes={"duplicates": 1},
        )

    return decide


def test_another_reader_sees_what_was_committed(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 1)
    log.commit(_batch(0, _file("a")))
    log.commit(_batch(1, _file("b")))

    state = CommitLog(tmp_path, 1).state()

    assert set(state.files) == {"a", "b"}
    assert state.batches == {"q": 1}
    assert state.coverage == {"n": ((1, 20),)}
    assert state.notes == {"duplicates": 2}


def test_a_repeated_batch_changes_nothing(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 1)
    log.commit(_batch(0, _file("a")))
    assert log.commit(_batch(0, _file("other"))) is None
    assert set(log.state().files) == {"a"}


def test_of_two_writers_the_slower_one_decides_anew(tmp_path: Path) -> None:
    one, other = CommitLog(tmp_path, 1), CommitLog(tmp_path, 1)
    seen = []

    def slow(state: State) -> Commit | None:
        seen.append(state.number)
        if len(seen) == 1:
            one.commit(_batch(0, _file("a")))
        return _batch(1, _file("b"))(state)

    other.commit(slow)

    assert seen == [0, 1]
    assert set(one.state().files) == {"a", "b"}


def test_what_was_merged_is_not_taken_for_new(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 1)
    log.commit(_batch(0, _file("a")))

    def merge(state: State) -> Commit:
        return Commit(number=2, made_ms=1, schema_version=1, added=(_file("m"),), removed=("a",))

    log.commit(merge)
    assert {path: file.commit for path, file in log.state().files.items()} == {"m": 0}


def test_opening_an_old_table_reads_its_last_state_and_few_commits(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 1)
    for n in range(260):
        log.commit(_batch(n, _file(f"f{n}")))

    assert len(list((tmp_path / "_commits").iterdir())) < 120
    assert CommitLog(tmp_path, 1).state() == log.state()
    assert len(log.state().files) == 260


def test_a_reader_that_slept_through_many_commits_catches_up(tmp_path: Path) -> None:
    reader, writer = CommitLog(tmp_path, 1), CommitLog(tmp_path, 1)
    writer.commit(_batch(0, _file("f0")))
    assert reader.state().number == 1
    for n in range(1, 260):
        writer.commit(_batch(n, _file(f"f{n}")))
    assert reader.state() == writer.state()


def test_a_half_written_commit_does_not_count(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 1)
    log.commit(_batch(0, _file("a")))
    (tmp_path / "_commits" / ".2-123-abc").write_bytes(b'{"numb')
    assert CommitLog(tmp_path, 1).state().number == 1


def test_a_damaged_commit_is_named(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 1)
    log.commit(_batch(0, _file("a")))
    next((tmp_path / "_commits").iterdir()).write_bytes(b"{")
    with pytest.raises(ArautoError, match=r"00001\.json") as caught:
        CommitLog(tmp_path, 1).state()
    assert caught.value.code is Code.LAKE_CORRUPT


def test_a_lost_commit_is_told(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 1)
    for n in range(3):
        log.commit(_batch(n, _file(f"f{n}")))
    (tmp_path / "_commits" / f"{2:020d}.json").unlink()
    with pytest.raises(ArautoError) as caught:
        CommitLog(tmp_path, 1).state()
    assert caught.value.code is Code.LAKE_CORRUPT


@pytest.mark.parametrize("damage", [b"{", b"", None])
def test_a_damaged_newest_state_is_no_loss_since_an_older_one_will_do(
    tmp_path: Path, damage: bytes | None
) -> None:
    log = CommitLog(tmp_path, 1)
    for n in range(260):
        log.commit(_batch(n, _file(f"f{n}")))
    states = sorted((tmp_path / "_commits").glob("*.state"))
    whole = states[-1].read_bytes()
    states[-1].write_bytes(whole.replace(b"f17", b"f71", 1) if damage is None else damage)
    assert CommitLog(tmp_path, 1).state() == log.state()
    # With none left, and the commits before them gone, nothing is made up.
    states[-2].write_bytes(b"{")
    with pytest.raises(ArautoError, match=r"\.state") as caught:
        CommitLog(tmp_path, 1).state()
    assert caught.value.code is Code.LAKE_CORRUPT


def test_a_damaged_first_state_is_no_loss_since_all_commits_are_there(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 1)
    for n in range(60):
        log.commit(_batch(n, _file(f"f{n}")))
    [state] = (tmp_path / "_commits").glob("*.state")
    state.write_bytes(b"{")
    assert CommitLog(tmp_path, 1).state() == log.state()


def test_a_changed_digit_in_a_commit_is_not_believed(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 1)
    log.commit(_batch(3, _file("a")))
    [path] = (tmp_path / "_commits").glob("*.json")
    path.write_bytes(path.read_bytes().replace(b'"batchId":3', b'"batchId":9'))
    with pytest.raises(ArautoError, match="checksum") as caught:
        CommitLog(tmp_path, 1).state()
    assert caught.value.code is Code.LAKE_CORRUPT


def test_commits_of_earlier_versions_without_a_checksum_are_read(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 1)
    log.commit(_batch(0, _file("a")))
    [path] = (tmp_path / "_commits").glob("*.json")
    path.write_bytes(path.read_bytes().partition(b"\n")[0])
    assert CommitLog(tmp_path, 1).state() == log.state()


def test_a_commit_cannot_remove_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="not there"):
        fold(State(), Commit(number=1, made_ms=1, schema_version=1, removed=("a",)))


def test_a_table_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    CommitLog(tmp_path, 2).commit(_batch(0, version=2))
    with pytest.raises(ArautoError) as caught:
        CommitLog(tmp_path, 1).state()
    assert caught.value.code is Code.SCHEMA_MISMATCH


def test_files_are_chosen_by_time_and_hub() -> None:
    files = [
        _file("early", min_ms=0, max_ms=9, hubs="a-c"),
        _file("late", min_ms=10, max_ms=19, hubs="b-b"),
        _file("untold", min_ms=0, max_ms=99),
    ]

    def chosen(**bounds: int | str) -> list[str]:
        return [file.path for file in select(files, **bounds)]  # type: ignore[arg-type]

    assert chosen() == ["early", "late", "untold"]
    assert chosen(from_ms=10) == ["late", "untold"]
    assert chosen(to_ms=10) == ["early", "untold"]
    assert chosen(hub="a") == ["early", "untold"]
    assert chosen(hub="b", from_ms=9, to_ms=11) == ["early", "late", "untold"]
