"""What a rule may say, and what an author is told if it says something else."""

import json

import pytest

from arauto.correlation.document import ERRORS_MAX, examine_rules, load_rule, load_rules
from arauto.errors import ArautoError, Code
from arauto.storage.base import Kind

HOLD = """\
rule: spike
version: 3
from:
  channels: ["prices:*"]
  where: "payload.open = true"
key: ["payload.symbol"]
let:
  p: "cast(payload.price as double)"
hold:
  start: "p >= 1.05 * base(p)"
  for: 5m
  base: last_stable
emit:
  channel: "alerts:fx"
  payload: {symbol: key.symbol, from: base.p, to: last.p}
  cooldown: 10m
"""

SEQUENCE = """\
rule: cart
key: [session]
sequence:
  - {as: add, where: "payload.type = 'add'", times: "1.."}
  - {as: pay, where: "payload.type = 'pay'", absent: true}
within: 30m
emit: {channel: carts}
"""

COUNT = """\
rule: many
count: {of: payload.x}
window: 1m
every: 10s
when: "sum(payload.x) > 5"
emit: {channel: alerts, payload: {top: max, n: count()}}
"""

CHANGE = """\
rule: sector
change: {of: payload.p, abs_pct: ">= 2"}
group: {by: payload.sector, member: payload.symbol}
window: 2m
when: "count(distinct member) >= 5 and same_sign_share >= 0.8"
emit: {channel: alerts, payload: {sector: key.group, members: members}}
"""


def refusal(text: str) -> str:
    with pytest.raises(ArautoError) as caught:
        load_rules(text)
    assert caught.value.code == Code.BAD_RULE
    return caught.value.message


def test_a_rule_is_read_as_written() -> None:
    rule = load_rule(HOLD)
    assert (rule.name, rule.version, rule.kind) == ("spike", 3, "hold")
    assert (rule.span_ms, rule.emit.cooldown_ms) == (300_000, 600_000)
    assert rule.source.channels == ("prices:*",)
    assert rule.text == HOLD


def test_steps_carry_their_times_and_absence() -> None:
    add, pay = load_rule(SEQUENCE).steps
    assert (add.name, add.least, add.most, add.absent) == ("add", 1, None, False)
    assert (pay.name, pay.absent) == ("pay", True)


@pytest.mark.parametrize(
    ("times", "bounds"), [("3", (3, 3)), ('"2..5"', (2, 5)), ('"2.."', (2, None))]
)
def test_times_are_a_number_or_a_range(times: str, bounds: tuple[int, int | None]) -> None:
    step = load_rule(SEQUENCE.replace('"1.."', times)).steps[0]
    assert (step.least, step.most) == bounds


def test_a_counted_payload_value_is_a_number_only_if_the_rule_computes_with_it() -> None:
    number = load_rule(COUNT).of
    text = load_rule(
        COUNT.replace("sum(payload.x) > 5", "count(distinct payload.x) > 5").replace(
            "top: max, ", ""
        )
    ).of
    assert number is not None
    assert text is not None
    assert (number.type, text.type) == ("number", "any")


def test_a_file_holds_several_rules_and_errors_keep_their_line() -> None:
    assert [rule.name for rule in load_rules(f"---\n{HOLD}---\n{COUNT}---\n")] == ["spike", "many"]
    second_line = HOLD.count("\n") + 3
    assert refusal(f"{HOLD}---\n{COUNT.replace('{of:', '{off:')}").startswith(
        f"line {second_line},"
    )


def test_one_rule_is_asked_for_and_two_are_refused() -> None:
    with pytest.raises(ArautoError, match="expected one rule, found 2"):
        load_rule(f"{HOLD}---\n{COUNT}")
    with pytest.raises(ArautoError, match="expected one rule, found 0"):
        load_rule("")


def test_a_name_is_used_once_in_a_file() -> None:
    assert "twice" in refusal(f"{HOLD}---\n{HOLD}")


def test_json_is_read_too_with_tabs_and_escaped_pairs() -> None:
    document = {
        "rule": "r",
        "match": "payload.x = '\U0001f600'",
        "emit": {"channel": "a"},
    }
    rule = load_rule(json.dumps(document, indent="\t"))
    assert rule.steps[0].where.args[1].value == "\U0001f600"


def test_without_a_payload_the_parts_of_the_key_are_emitted() -> None:
    assert list(load_rule(SEQUENCE).emit.payload) == ["session"]


def test_kinds_have_the_numbers_of_the_journal() -> None:
    rule = load_rule(
        "rule: r\nfrom: {kinds: [session_end, message]}\nmatch: 'true'\nemit: {channel: a}"
    )
    assert rule.source.kinds == (Kind.MESSAGE, Kind.SESSION_END)


@pytest.mark.parametrize(
    ("text", "old", "new", "line", "said"),
    [
        (
            HOLD,
            "version: 3",
            "version: 0",
            2,
            "line 2, column 10: version: expected a whole number",
        ),
        (
            HOLD,
            "version: 3",
            "versions: 3",
            2,
            "line 2, column 1: versions: unknown field; did you mean",
        ),
        (HOLD, "  for: 5m\n", "", 9, "hold.for: missing; how long it has to hold"),
        (
            HOLD,
            "for: 5m",
            "for: 8d",
            11,
            "line 11, column 8: hold.for: a duration here lies between",
        ),
        (HOLD, "for: 5m", "for: 300", 11, "expected a duration such as 500ms"),
        (HOLD, "for: 5m", "fr: 5m", 11, "hold.fr: unknown field; did you mean for?"),
        (HOLD, "rule: spike\n", "", 1, "rule: missing"),
        (HOLD, "rule: spike", "rule: 'sp ike'", 1, "line 1, column 7: rule: rule is 1-64 of"),
        (HOLD, '["payload.symbol"]', "[]", 6, "key: expected a list of expressions"),
        (HOLD, '["payload.symbol"]', "[symbool]", 6, "key[0]: symbool is not known here"),
        (
            HOLD,
            "payload.price as double",
            "payload.price as int",
            8,
            "line 8, column 6: let.p: cast takes",
        ),
        (HOLD, "  p:", "  user:", 8, "let.user: a name has"),
        (HOLD, "base: last_stable", "base: mean", 12, "hold.base: expected last_stable"),
        (HOLD, "  base: last_stable\n", "", 10, "a hold that says base: last_stable"),
        (HOLD, "prices:*", "prices *", 4, "from.channels[0]: a channel name has no white space"),
        (
            HOLD,
            '"payload.open = true"',
            "channel",
            5,
            "from.where: a condition needs true or false",
        ),
        (HOLD, '"alerts:fx"', '"alerts:*"', 14, "emit.channel: a channel name has no wildcards"),
        (HOLD, "key.symbol", "key.color", 15, "not a part of the key; they are key.symbol"),
        (HOLD, "to: last.p", "to: lst.p", 15, "emit.payload.to: lst is not known here"),
        (HOLD, "emit:", "emitted:", 13, "unknown field; did you mean emit?"),
        (HOLD, "hold:\n", "hold: 5\nxold:\n", 10, "xold: unknown field; did you mean hold?"),
        (HOLD, "5m", "&a 5m", 11, "anchors and aliases"),
        (
            SEQUENCE,
            "within: 30m",
            "within: 30m\ninclude_pipeline: true",
            7,
            "look at what it publishes itself",
        ),
        (HOLD, "5m", "!!str 5m", 11, "tags (!) are not used here"),
        (HOLD, "key:", "rule: x\nkey:", 6, "written twice"),
        (SEQUENCE, "within: 30m\n", "", 1, "within: missing; how long it may take"),
        (SEQUENCE, "within: 30m", "within: 9999999d", 6, "within: a duration here lies between"),
        (
            SEQUENCE,
            "within: 30m",
            "within: 30m\nwindow: 1m",
            7,
            "window: has no meaning for sequence",
        ),
        (SEQUENCE, '"1.."', '"5..2"', 4, "sequence[0].times: from least to most"),
        (SEQUENCE, '"1.."', '"some"', 4, "sequence[0].times: expected 3"),
        (SEQUENCE, '"1.."', '"0.."', 4, "sequence[0]: the first step has to happen"),
        (SEQUENCE, "as: pay", "as: add", 5, "sequence[1].as: a name of its own"),
        (SEQUENCE, "as: pay", "as: last", 5, "sequence[1].as: a name of its own"),
        (
            SEQUENCE,
            "absent: true",
            "absent: maybe",
            5,
            "sequence[1].absent: expected true or false",
        ),
        (
            SEQUENCE,
            "emit:",
            "skip: never\nemit:",
            7,
            "skip: expected past_last or to_last or to_next",
        ),
        (SEQUENCE, "emit:", "prefer: me\nemit:", 7, "prefer: expected first_done or first_begun"),
        (
            SEQUENCE,
            "emit:",
            "skip: to_next\nprefer: first_begun\nemit:",
            8,
            "prefer: with skip: to_next every attempt can match",
        ),
        (SEQUENCE, "rule: cart", "rule: cart\nmatch: 'true'", 1, "found match and sequence"),
        (
            SEQUENCE,
            "channel: carts",
            "channel: carts, payload: {a: max(add.id)}",
            7,
            "sum and avg are kept",
        ),
        (COUNT, "window: 1m", "window: 10ms", 3, "window: a duration here lies between 1000ms"),
        (COUNT, "every: 10s", "every: 2m", 4, "every: longer than the window"),
        (COUNT, "every: 10s", "every: 7s", 4, "every: the window is 1 to 120 times this"),
        (COUNT, "sum(payload.x) > 5", "sum(payload.y) > 5", 5, "has one value, its `of`"),
        (COUNT, "{of: payload.x}", "{}", 5, "sum is not known here; known here: count"),
        (COUNT, "top: max", "top: payload.x", 6, "payload is not known here"),
        (CHANGE, '">= 2"', '"about 2"', 2, 'change.abs_pct: expected ">= 2"'),
        (CHANGE, "group: {by: payload.sector, member: payload.symbol}\n", "", 1, "group: missing"),
        (CHANGE, "same_sign_share", "same_share", 5, "did you mean same_sign_share?"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    text: str, old: str, new: str, line: int, said: str
) -> None:
    assert old in text
    message = refusal(text.replace(old, new, 1))
    assert said in message
    assert message.startswith(f"line {line}, column ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2]", "line 1, column 1: expected a rule: names and values"),
        ("just text", "line 1, column 1: expected a rule: names and values"),
        (f"{COUNT}---\n- 1", "line 8, column 1: expected a rule: names and values"),
        ("rule: [", "line 1, column 8: while parsing a flow node, expected the node content"),
        ("rule: r\n\x00", "line 2, column 1: control characters are not allowed"),
        ("rule: r", "line 1, column 1: a rule has one of match, hold, sequence"),
        ("a: 1\n- b", "line 2, column 1: while parsing a block mapping, expected <block end>"),
    ],
)
def test_text_that_is_no_rule_is_refused(text: str, said: str) -> None:
    assert refusal(text).startswith(said)


def test_a_rule_has_at_most_so_many_bytes_and_steps() -> None:
    assert "at most 65536 bytes" in refusal(HOLD + "#" * 65_536)
    many = "\n".join('  - {where: "true"}' for _ in range(17))
    text = f"rule: r\nall_of:\n{many}\nwithin: 1s\nemit: {{channel: a}}"
    assert "more than 16 steps" in refusal(text)


def test_a_deep_document_is_refused() -> None:
    assert "levels deep" in refusal("rule: " + "[" * 200 + "]" * 200)


def test_everything_that_is_wrong_in_a_file_is_told_at_once() -> None:
    text = """rule: good
match: "true"
emit: {channel: a}
---
rule: two words
version: none
from: {channels: []}
match: prise > 1
emit: {channel: a}
---
rule: emits
match: "true"
emit: {channel: a, payload: {x: y, z: payload.z, w: lst.p}}
---
rule: [
---
rule: good
match: "true"
emit: {channel: a}
"""
    rules, errors = examine_rules(text)
    assert [rule.name for rule in rules] == ["good"]
    assert all(error.code is Code.BAD_RULE for error in errors)
    places = [error.message.split(": ")[:2] for error in errors]
    assert places == [
        ["line 8, column 8", "match"],
        ["line 7, column 18", "from.channels"],
        ["line 5, column 7", "rule"],
        ["line 6, column 10", "version"],
        ["line 13, column 33", "emit.payload.x"],
        ["line 13, column 53", "emit.payload.w"],
        ["line 16, column 1", errors[6].message.split(": ")[1]],
        ["line 17, column 1", "rule"],
    ]
    assert "while parsing" in errors[6].message
    with pytest.raises(ArautoError) as caught:
        load_rules(text)
    assert caught.value.message == errors[0].message


def test_so_many_errors_are_told_and_no_more() -> None:
    _, errors = examine_rules("rule: r\n---\n" * (ERRORS_MAX + 20))
    assert len(errors) == ERRORS_MAX
