"""The index finds the rules that looking at each rule in turn would find, and looks at few."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arauto.correlation import rule_index
from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import load_rule
from arauto.correlation.program import Program
from arauto.correlation.rule_index import RuleIndex
from arauto.names import matches

_TEXT = """rule: {name}
version: 1
from: {{channels: ["{channel}"]}}
match: payload.a > 1
emit: {{channel: alerts, payload: {{}}}}
"""

_SEGMENTS = st.sampled_from(["a", "b", "ab", "a.b", "ü"])
_NAMES = st.lists(_SEGMENTS, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from([":".join(parts), "/" + "/".join(parts), "/"])
)
_WILD = st.sampled_from(
    ["*", "#", "a:*", "a*", "*b", "a:#", "#:b", "a:*b", "ab:*", "/a", "/", "/a/b"]
)


def _program(name: str, channel: str, hub: str = "shop") -> Program:
    return compile_rule(hub, load_rule(_TEXT.format(name=name, channel=channel)))


@given(st.lists(_NAMES | _WILD, max_size=8), _NAMES)
@example(["/a"], "/a/b")
@example(["/"], "/a")
@example(["a*"], "ab:c")
@example(["*"], "")
def test_it_finds_what_looking_at_every_rule_finds(patterns: list[str], channel: str) -> None:
    programs = {f"r{n}": _program(f"r{n}", pattern) for n, pattern in enumerate(patterns)}
    found = [reader.ref for reader in RuleIndex(programs).touching("shop", channel)]
    assert found == [f"r{n}" for n, pattern in enumerate(patterns) if matches(pattern, channel)]


def test_rules_of_other_hubs_and_channels_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs = {"mine": _program("mine", "orders:*")}
    for n in range(200):
        programs[f"there{n}"] = _program(f"r{n}", "orders:*", hub=f"hub{n}")
        programs[f"beside{n}"] = _program(f"b{n}", f"other{n}:*")
        programs[f"named{n}"] = _program(f"n{n}", f"named{n}")
    looked: list[str] = []

    def counted(pattern: str, name: str) -> bool:
        looked.append(pattern)
        return matches(pattern, name)

    monkeypatch.setattr(rule_index, "matches", counted)
    index = RuleIndex(programs)
    for _ in range(3):
        assert [reader.ref for reader in index.touching("shop", "orders:7")] == ["mine"]
    assert looked == ["orders:*"]


def test_the_channels_it_remembers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_index, "_KNOWN_MAX", 3)
    index = RuleIndex({"mine": _program("mine", "orders:*")})
    for n in range(20):
        assert len(index.touching("shop", f"orders:{n}")) == 1
        assert len(index._known) <= 3
