"""Who writes a rule is told of messages that it will never see, because nobody stores them."""

import pytest

from arauto.correlation.document import load_rule
from arauto.correlation.unseen import unseen
from arauto.model import When

RULE = "rule: r\n{source}match: payload.a = 1\nemit: {{channel: alerts}}\n"
STORES = {
    "quiet:*": {When.NEVER},
    "some:*": {When.NEVER, When.ALL},
    "marked:*": {When.MARKED},
    "kept:*": {When.ALL},
    "*": {When.NEVER, When.ALL},
}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("from: {channels: ['kept:*']}\n", []),
        ("from: {channels: ['quiet:*', 'kept:*']}\n", ["sees no message of quiet:*"]),
        ("from: {channels: ['some:*']}\n", ["may not see all messages of some:*"]),
        ("from: {channels: ['marked:*']}\n", ["may not see all messages of marked:*"]),
        ("from: {channels: ['quiet:*'], kinds: [session_start]}\n", []),
        ("", ["may not see all messages of *"]),
    ],
)
def test_a_rule_is_told_of_channels_that_do_not_store_what_it_looks_at(
    source: str, said: list[str]
) -> None:
    found = unseen(load_rule(RULE.format(source=source)), STORES.__getitem__)
    assert [warning.partition(":*" if ":*" in warning else ":")[0] for warning in found] == [
        each.removesuffix(":*") for each in said
    ]
