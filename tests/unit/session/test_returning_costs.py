"""What a client that comes back with very many patterns and places costs. Operations are counted."""

from hypothesis import given
from hypothesis import strategies as st

from arauto.model import Serial
from arauto.names import ALL_CHANNELS, is_wide, matches
from arauto.session.identify import _plans
from arauto.session.subscribe import Plan
from arauto.tasks import at_once
from tests.unit.hub.test_costs import count_steps


def places_of(plans: list[Plan]) -> dict[str, dict[str, Serial] | None]:
    return {plan.item.channel: plan.item.positions for plan in plans}


def test_the_places_of_patterns_are_found_without_a_look_at_each_with_each() -> None:
    steps: dict[int, int] = {}
    for count in (10, 1_000):
        held: dict[str, Serial | None] = {f"p{n}:*": Serial(1, n + 1) for n in range(count)}
        places = {f"p{n}:{n}": Serial(2, 1) for n in range(count)}
        found = places_of(at_once(_plans(held, places)))
        assert found["p7:*"] == {"p7:7": Serial(2, 1), ALL_CHANNELS: Serial(1, 8)}
        steps[count] = count_steps(lambda: at_once(_plans(held, places))) // count  # noqa: B023
    assert steps[1_000] < 3 * steps[10], steps


@given(
    st.lists(st.sampled_from(["a*", "a:#", "#:b", "*b*", "/a", "/", "a:b", "*"]), unique=True),
    st.lists(st.sampled_from(["a:b", "ab", "/a/b", "/b", "b:b", "a:b:c", "*"]), unique=True),
)
def test_each_pattern_comes_back_with_the_places_it_covers(
    held: list[str], places: list[str]
) -> None:
    found = places_of(at_once(_plans(dict.fromkeys(held), {name: Serial(1, 1) for name in places})))
    for pattern in held:
        if is_wide(pattern):
            wanted = {c for c in places if c != ALL_CHANNELS and matches(pattern, c)}
            assert set(found[pattern] or ()) == wanted


def test_many_places_are_looked_at_in_slices() -> None:
    work = _plans({"room:*": Serial(1, 1)}, {f"room:{n}": Serial(1, 1) for n in range(2_000)})
    assert sum(1 for _ in work) == 2_000 // 256


def test_patterns_that_have_to_be_tried_make_the_slices_shorter() -> None:
    """Seen: 255 places against 500 patterns, all in one turn, held the loop for eight seconds."""
    held: dict[str, Serial | None] = {f"room:*:{n}": Serial(1, 1) for n in range(320)}
    work = _plans(held, {f"room:{n}": Serial(1, 1) for n in range(200)})
    assert sum(1 for _ in work) == 320 // 16 + 200


def test_patterns_that_cover_too_many_places_together_begin_anew() -> None:
    held: dict[str, Serial | None] = {f"{'room:0'[:n]}*": Serial(1, 1) for n in range(6)}
    held["hall"] = None
    few, many = (
        {f"room:0{n}": Serial(1, 1) for n in range(count)} | {"hall": Serial(1, 2)}
        for count in (16_000, 17_000)
    )
    found = places_of(at_once(_plans(held, few)))
    assert len(found["room*"] or ()) == 16_000 + 1
    plans = at_once(_plans(held, many))
    assert set(map(str, places_of(plans).values())) == {"None"}
    assert plans[-1].item.since == Serial(1, 2)
