"""Never a silent hole, never a duplicate: who comes back has what it missed, or was told of a hole.

A generator plays whole histories against a node from the sessions down: publishing with and without marks,
keys, times to live and exclusions, commits that come late or never, changed rules, channels and hubs that
close when idle, restarts, kills, lost connections and returns, pages of the past. Every subscription, by
name, by pattern and of the topic tree, is held to one law: unless it was told of a hole, it has every
acknowledged message since it began, in order, once, and nothing else; every page of history that is said
to be complete, is. RECOVERY_EXAMPLES says how many histories.
"""

import asyncio
import os
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from arauto.codec.events import Echo
from arauto.model import Direction, When
from arauto.settings import Rules
from arauto.storage.memory import open_memory
from arauto.testing.clock import FakeClock
from tests.unit.session.scene import Scene, Walk, rules_of

EXAMPLES = int(os.environ.get("RECOVERY_EXAMPLES", "300"))
#: Whether new histories are looked for. Else the same come every time, and what fails is what was changed.
SEARCHES = "RECOVERY_EXAMPLES" in os.environ

all_rules = st.builds(
    rules_of,
    st.sampled_from([*When, When.ALL]),
    st.sampled_from([0, 2, 6]),
    st.sampled_from([0, 5]),
    st.sampled_from([0, 0, 20]),
)
Step = tuple[Any, ...]
"""The name of a method of `Scene`, and its arguments."""

Played = list[tuple[list[Step], list[Step], tuple[bool, bool]]]
"""What happens while the client is there, what while it is not, and how it returns."""
nth = st.integers(-1, 12)
walks = st.builds(
    Walk,
    since=nth,
    until=nth,
    from_ms=st.one_of(st.just(-1), nth),
    to_ms=st.one_of(st.just(-1), nth),
    limit=st.sampled_from([0, 1, 2, 4, 100]),
    direction=st.sampled_from(Direction),
    between=st.lists(st.integers(1, 3), max_size=2).map(tuple),
)

#: Channels that a history is about, the names it may be read by, and what its rules can be bound to.
WORLDS = (
    (("room:1", "room:2"), ("room:1", "room:*", "*"), ("room",)),
    (("/t/1", "/t/1/deep"), ("/t/1", "/t", "#", "/t/1/deep"), ("/t/1", "/t/1/deep")),
    (("hall",), ("hall", "*"), ("hall",)),
    (("room:1", "/t/1"), ("room:1", "room:*", "/t", "#"), ("room", "/t/1")),
)


def steps_with(channels: tuple[str, ...], bound: tuple[str, ...]) -> st.SearchStrategy[Step]:
    some = st.sampled_from(channels)
    few = st.sampled_from([1, 1, 2, 3])
    posts = st.tuples(st.just("post"), some, st.sampled_from([1, 1, 2, 5, 14]), st.booleans())
    publishes = st.tuples(st.just("publish"), some, few, st.booleans())
    marked = st.tuples(
        st.just("publish"),
        some,
        few,
        st.booleans(),
        st.sampled_from([0, 1, 5_000]),
        st.sampled_from(Echo),
    )
    keyed = st.tuples(st.just("retry"), some, st.sampled_from(["a", "b"]), st.booleans())
    spoken = st.tuples(st.just("speak"), some, few, st.sampled_from(Echo))
    refused = st.tuples(st.just("refuse"), st.sampled_from([1, 2]), st.booleans())
    waits = st.tuples(st.just("wait"), st.sampled_from([1, 6, 30, 30, 90]))
    rules = st.tuples(st.just("change_rules"), all_rules, *map(st.just, bound))
    pages = st.tuples(st.just("page"), some, walks)
    return st.one_of(
        *(posts, posts, posts, publishes, publishes, marked, keyed, spoken, refused, refused),
        *(waits, waits, rules, rules, pages),
        st.tuples(st.just("commit"), st.sampled_from([1, 3, 30])),
        st.tuples(st.sampled_from(["lose_notes", "trim", "restart", "kill"])),
    )


def histories(world: tuple[tuple[str, ...], ...]) -> st.SearchStrategy[tuple[list[str], Played]]:
    channels, names, bound = world
    steps = steps_with(channels, bound)
    returns = st.tuples(st.booleans(), st.sampled_from([False, False, True]))
    episode = st.tuples(st.lists(steps, max_size=4), st.lists(steps, max_size=6), returns)
    held = st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)
    return st.tuples(held, st.lists(episode, min_size=1, max_size=4))


all_histories = st.one_of(*map(histories, WORLDS))
ANEW = (False, False)
"""Returns without the old session, with one request."""


async def play(scene: Scene, played: Played) -> None:
    await scene.boot()
    await scene.come_back()
    for present, absent, how in played:
        for name, *arguments in present:
            await getattr(scene, name)(*arguments)
            if scene.client is None:  # the node went away under it
                await scene.come_back()
        await scene.leave()
        for name, *arguments in absent:
            await getattr(scene, name)(*arguments)
        await scene.come_back(*how)
        await scene.commit(1_000)
        scene.check()
    await scene.desk.close()
    await scene.disk.flush()


def a_scene(rules: Rules, *names: str) -> Scene:
    clock = FakeClock()
    return Scene(rules, *names, clock=clock, storage=open_memory(clock))


@pytest.mark.timeout(0)
@settings(max_examples=EXAMPLES, derandomize=not SEARCHES)
@given(all_rules, all_histories)
def test_a_client_that_returns_has_everything_or_was_told(
    rules: Rules, history: tuple[list[str], Played]
) -> None:
    names, played = history
    note(f"{names}, {rules}, {played}")
    asyncio.run(play(a_scene(rules, *names), played))


async def test_a_short_absence_is_made_good_from_memory_and_from_the_store() -> None:
    for store, history_len in ((When.NEVER, 10), (When.ALL, 0), (When.ALL, 3)):
        for name in ("room:1", "room:*"):
            scene = a_scene(rules_of(store, history_len, 300), name)
            absence: list[Step] = [("publish", "room:1", 6, False), ("commit", 1_000)]
            await play(scene, [([], absence, ANEW), ([], absence, ANEW)])
            assert scene.recoveries == {True: 2, False: 0}, (store, history_len, name)


async def test_a_restart_is_made_good_where_everything_is_stored_and_told_where_not() -> None:
    for store, whole in ((When.ALL, True), (When.MARKED, False), (When.NEVER, False)):
        for name in ("room:1", "room:*", "/t"):
            for end in ("restart", "kill"):
                scene = a_scene(rules_of(store, 10, 300), name)
                here: list[Step] = [("publish", c, 1, True) for c in ("room:1", "/t/1")]
                absence: list[Step] = [
                    *[("publish", c, 3, True) for c in ("room:1", "room:2", "/t/1")],
                    ("commit", 100),
                    (end,),
                ]
                await play(scene, [([*here, ("commit", 9)], absence, ANEW)])
                assert scene.recoveries[whole] == 1, (store, name, end)


async def test_a_pattern_recovers_channels_that_came_and_went_while_nobody_looked() -> None:
    for store, whole in ((When.ALL, True), (When.NEVER, False)):
        for end in (("wait", 30), ("restart",), ("kill",)):
            scene = a_scene(rules_of(store, 10, 300), "room:*")
            absence: list[Step] = [("publish", "room:2", 3, False), ("commit", 100), end]
            await play(scene, [([], absence, ANEW)])
            assert scene.recoveries[whole] == 1, (store, end)


async def test_a_pattern_is_told_of_messages_in_an_epoch_that_ended_while_its_channel_stayed_open() -> (
    None
):
    """Seen: stored, then not: the open channel's place was taken for the end of all it had."""
    never, stored = rules_of(When.NEVER, 2, 0), rules_of(When.ALL, 0, 0)
    for end in ((), (("wait", 30), ("publish", "room:1", 1, False))):
        scene = a_scene(never, "room:*")
        absence: list[Step] = [
            ("change_rules", stored, "room"),
            ("publish", "room:1", 1, False),
            ("commit", 30),
            ("change_rules", never, "room"),
            *end,
        ]
        await play(scene, [([], absence, ANEW)])
        assert scene.recoveries == {True: 0, False: 1}


async def test_a_pattern_recovers_nothing_and_says_so_if_nothing_came() -> None:
    for store in (When.ALL, When.NEVER):
        scene = a_scene(rules_of(store, 10, 300), "room:*")
        absence: list[Step] = [("publish", "hall", 3, False), ("commit", 100), ("wait", 30)]
        await play(scene, [([], absence, ANEW)])
        assert scene.recoveries == {True: 1, False: 0}


async def test_places_of_refused_messages_do_not_come_again_for_others() -> None:
    """Seen: refused writes took offsets, subscribers were told of them, and later other messages had them."""
    for name in ("room:1", "room:*"):
        scene = a_scene(rules_of(When.ALL, 10, 300), name)
        refused: list[Step] = [
            ("publish", "room:1", 2, False),
            ("commit", 2),
            ("publish", "room:1", 3, False),
            ("refuse", 3, False),
        ]
        after: list[Step] = [("publish", "room:1", 4, False), ("commit", 9)]
        await play(scene, [(refused, [("restart",), *after], ANEW), ([], after, ANEW)])
        assert scene.recoveries == {True: 2, False: 0}


async def test_places_of_messages_that_were_refused_one_after_another_do_not_come_again() -> None:
    """Seen: only the last one gave its place back; who heard of the others missed what came later."""
    for name in ("room:1", "room:*"):
        scene = a_scene(rules_of(When.ALL, 0, 0), name)
        refused: list[Step] = [
            ("post", "room:1", 1, False),
            ("publish", "room:1", 3, False),
            ("refuse", 3, False),
        ]
        await play(
            scene, [([], refused, ANEW), ([], [("wait", 400), ("post", "room:1", 2, False)], ANEW)]
        )
        assert scene.recoveries == {True: 2, False: 0}, name


async def test_a_pattern_is_told_of_what_reached_the_disk_after_its_epoch_had_ended() -> None:
    """Seen: the epoch was remembered as empty, since what it had was still on its way."""
    scene = a_scene(rules_of(When.ALL, 0, 0), "room:*")
    absence: list[Step] = [
        ("publish", "room:1", 1, False),
        ("change_rules", rules_of(When.NEVER, 2, 0), "room"),
        ("post", "room:1", 1, False),
    ]
    await play(scene, [([], absence, ANEW)])
    assert scene.recoveries == {True: 0, False: 1}


async def test_live_history_that_begins_while_messages_wait_for_the_disk_hides_nothing() -> None:
    """Seen: it took the places of what was still on its way for places it had been given."""
    scene = a_scene(rules_of(When.ALL, 0, 0), "hall")
    absence: list[Step] = [
        ("post", "hall", 1, False),
        ("publish", "hall", 1, False),
        ("change_rules", rules_of(When.ALL, 2, 0), "hall"),
    ]
    await play(scene, [([("post", "hall", 1, False)], absence, ANEW)])
    assert scene.recoveries == {True: 1, False: 0}


async def test_what_was_kept_for_a_time_only_is_missed_also_after_everything_is_kept_for_good() -> (
    None
):
    """Seen: the rules of now were taken for those under which the missing messages had been stored."""
    brief, good = rules_of(When.ALL, 0, 0, store_s=20), rules_of(When.ALL, 0, 0)
    for name in ("room:1", "room:*"):
        for close in ((), (("wait", 30),)):
            scene = a_scene(brief, name)
            here: list[Step] = [("publish", "room:1", 1, False), ("commit", 9)]
            absence: list[Step] = [
                ("publish", "room:1", 3, False),
                ("commit", 9),
                *close,
                ("change_rules", good, "room"),
                ("wait", 30),
                ("trim",),
                ("publish", "room:1", 1, False),
                ("commit", 9),
            ]
            await play(scene, [(here, absence, ANEW)])
            assert scene.recoveries == {True: 0, False: 1}, (name, close)


async def test_a_past_that_was_kept_for_a_time_only_is_never_complete() -> None:
    brief, good = rules_of(When.ALL, 0, 0, store_s=20), rules_of(When.ALL, 0, 0)
    for direction in Direction:
        scene = a_scene(brief, "hall")
        walk = Walk(since=0, until=-1, from_ms=-1, to_ms=-1, limit=0, direction=direction)
        steps: list[Step] = [
            ("publish", "room:1", 3, False),
            ("commit", 9),
            ("change_rules", good, "room"),
            ("wait", 30),
            ("trim",),
            ("publish", "room:1", 1, False),
            ("commit", 9),
            ("page", "room:1", walk),
        ]
        await play(scene, [(steps, [], ANEW)])
