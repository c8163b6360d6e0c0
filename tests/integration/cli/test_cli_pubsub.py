"""`arauto pub` and `arauto sub` as processes, against a real node."""

import asyncio
import base64
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from arauto.client import Client
from arauto.settings import HubSettings, Rules
from tests.integration.cli.conftest import Run
from tests.integration.conftest import RunningNode, StartNode

PIPE = asyncio.subprocess.PIPE


def events(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def data_of(lines: list[str]) -> list[Any]:
    return [event["data"] for event in events(lines)]


# --- there and back -----------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", ["proto", "json"])
async def test_what_pub_publishes_sub_prints(node: RunningNode, run: Run, flavour: str) -> None:
    to = ("--url", node.url, "--hub", "shop", "--flavour", flavour)
    sub = await run("sub", "stock:42", "--count", "1", *to)
    await sub.line("subscribed to stock:42 on hub shop")
    pub = await run("pub", "stock:42", '{"level": 7}', *to)
    assert await pub.ended() == 0, pub
    assert await sub.ended() == 0, sub
    [line] = sub.out
    assert line.endswith(' stock:42   #1 {"level": 7}')
    [place] = pub.out
    assert place.startswith("stock:42 ")
    assert place.endswith(":1")


async def test_json_lines_hold_all_that_is_known(
    node: RunningNode, run: Run, tmp_path: Path
) -> None:
    to = ("--url", node.url)
    sub = await run("sub", "a", "--count", "4", "--json", *to)
    await sub.line("subscribed")
    file = tmp_path / "bytes"
    file.write_bytes(b"\x00\xff")
    sent = [
        ("--json", "a", "[1, 2.50]"),
        ("--json", "a", "[1]", "--text", "--key", "k", "--idempotency-key", "once"),
        ("--json", "a", "Bom dia", "--ttl", "60"),
        ("--json", "a", "--binary-file", str(file)),
    ]
    serials = []
    for arguments in sent:
        pub = await run("pub", *arguments, *to)
        assert await pub.ended() == 0, pub
        serials += [event["serial"] for event in events(pub.out)]
    assert await sub.ended() == 0
    got = events(sub.out)
    assert [event["serial"] for event in got] == serials
    assert {event["event"] for event in got} == {"publish"}
    assert got[0]["data"] == [1, 2.50]
    assert (got[1]["text"], got[1]["key"], got[1]["idempotency_key"]) == ("[1]", "k", "once")
    assert got[2]["text"] == "Bom dia"
    assert got[2]["expires_ms"] == got[2]["ts_ms"] + 60_000
    assert base64.b64decode(got[3]["base64"]) == b"\x00\xff"


async def test_lines_of_standard_input_become_messages_in_order(
    node: RunningNode, run: Run
) -> None:
    sub = await run("sub", "a", "--count", "3000", "--json", "--url", node.url)
    await sub.line("subscribed")
    pub = await run("pub", "a", "-", "--url", node.url, stdin=PIPE)
    pub.write("".join(f"{number}\n\n" for number in range(3000)))
    pub.close_input()
    assert await pub.ended() == 0, pub
    assert await sub.ended() == 0, sub
    assert data_of(sub.out) == list(range(3000))
    assert len(pub.out) == 3000


async def test_a_line_is_published_before_the_next_one_is_typed(
    node: RunningNode, run: Run
) -> None:
    pub = await run("pub", "a", "-", "--url", node.url, stdin=PIPE)
    for number in (1, 2, 3):
        pub.write("x\n")
        assert (await pub.lines(number))[-1].endswith(f":{number}")
    pub.interrupt()
    assert await pub.ended() == 130


async def test_a_message_can_be_repeated(node: RunningNode, run: Run) -> None:
    options = ("--repeat", "3", "--interval", "0.01", "--url", node.url)
    pub = await run("pub", "a", "x", *options)
    assert await pub.ended() == 0, pub
    assert [line.rpartition(":")[2] for line in pub.out] == ["1", "2", "3"]


async def test_the_same_key_again_gets_the_same_place(node: RunningNode, run: Run) -> None:
    pub = await run(
        "pub", "a", "x", "--repeat", "3", "--idempotency-key", "once", "--url", node.url
    )
    assert await pub.ended() == 0, pub
    assert len(pub.out) == 3
    assert len(set(pub.out)) == 1


async def test_a_retained_message_waits_for_who_comes_later(node: RunningNode, run: Run) -> None:
    pub = await run("pub", "a", "kept", "--retain", "-q", "--url", node.url)
    assert await pub.ended() == 0, pub
    assert (pub.out, pub.err) == ([], [])
    sub = await run("sub", "a", "-n", "1", "--url", node.url)
    assert await sub.ended() == 0, sub
    assert sub.out[0].endswith("#1 kept")


# --- the past -----------------------------------------------------------------------------------------


async def publish(node: RunningNode, channel: str, *data: object) -> None:
    async with Client(node.url, hub="default") as client:
        for each in data:
            await client.publish(channel, each)


async def test_history_comes_first_and_the_present_follows(node: RunningNode, run: Run) -> None:
    await publish(node, "a", 1, 2, 3, 4, 5)
    sub = await run("sub", "a", "--history", "3", "-n", "4", "--json", "--url", node.url)
    await sub.line("subscribed")
    await publish(node, "a", 6)
    assert await sub.ended() == 0, sub
    assert data_of(sub.out) == [3, 4, 5, 6]


async def test_sub_ends_within_history_when_that_is_enough(node: RunningNode, run: Run) -> None:
    await publish(node, "a", 1, 2, 3)
    sub = await run("sub", "a", "--history", "3", "-n", "2", "--json", "-q", "--url", node.url)
    assert await sub.ended() == 0, sub
    assert data_of(sub.out) == [1, 2]
    assert sub.err == []


async def test_the_history_of_a_topic_is_shown_and_what_lies_below_follows(
    node: RunningNode, run: Run
) -> None:
    await publish(node, "/orders/pt", "old", "the last one below")
    await publish(node, "/orders", 0, 1, 2)
    sub = await run("sub", "/orders", "--history", "2", "-n", "4", "--json", "--url", node.url)
    await sub.line("subscribed")
    await publish(node, "/orders/pt/porto", 3)
    assert await sub.ended() == 0, sub
    shown = [event.get("data", event.get("text")) for event in events(sub.out)]
    assert sorted(shown, key=str) == [1, 2, 3, "the last one below"]


async def test_the_place_sub_ends_with_is_where_the_next_one_continues(
    node: RunningNode, run: Run
) -> None:
    await publish(node, "a", 1)
    first = await run("sub", "a", "--history", "1", "--url", node.url)
    await first.line("subscribed")
    first.interrupt()
    assert await first.ended() == 0, first
    hint = await first.line("to continue from here: --since ")
    await publish(node, "a", 2, 3)
    since = hint.rpartition(" ")[2]
    second = await run("sub", "a", "--since", since, "-n", "2", "--json", "--url", node.url)
    assert await second.ended() == 0, second
    assert data_of(second.out) == [2, 3]
    assert "a: 2 missed, all recovered" in second.err


@pytest.mark.parametrize("channel", ["/a", "/a/b", "s:*", "doc:a"])
async def test_no_place_is_told_that_could_not_be_continued_from(
    node: RunningNode, run: Run, channel: str
) -> None:
    sub = await run("sub", channel, "-n", "1", "--url", node.url)
    await sub.line("subscribed")
    if channel != "doc:a":
        published = {"s:*": "s:1"}.get(channel, "/a/b")
        pub = await run("pub", published, "x", "--url", node.url)
        assert await pub.ended() == 0, pub
    assert await sub.ended() == 0
    assert len(sub.out) == 1
    assert [line for line in sub.err if "--since" in line] == []


async def test_a_place_that_is_gone_is_not_passed_over_in_silence(
    node: RunningNode, run: Run
) -> None:
    await publish(node, "a", 1, 2)
    sub = await run("sub", "a", "--since", "1:1", "-n", "1", "--url", node.url)
    await sub.line("a: not all that was missed could be recovered")
    await publish(node, "a", 3)
    assert await sub.ended() == 0, sub
    assert "missing (not_recovered)" in sub.out[0]
    assert sub.out[1].endswith("#3 3")


# --- what else there is to see --------------------------------------------------------------------------


async def test_a_message_that_several_patterns_cover_is_printed_once(
    node: RunningNode, run: Run
) -> None:
    names = ("stock:*", "stock:1", "*:1", "/orders", "/orders/pt")
    sub = await run("sub", *names, "-n", "3", "--json", "--url", node.url)
    await sub.line("subscribed")
    await publish(node, "stock:1", 1)
    await publish(node, "/orders/pt/porto", 2)
    await publish(node, "stock:2", 3)
    assert await sub.ended() == 0, sub
    assert sorted(data_of(sub.out)) == [1, 2, 3]


async def test_a_document_is_printed_and_then_its_changes(node: RunningNode, run: Run) -> None:
    async with Client(node.url, hub="default") as client, client.document("doc:board") as board:
        await board.change([{"op": "add", "path": "/title", "value": "Draft"}])
        sub = await run("sub", "doc:board", "-n", "3", "--json", "--url", node.url)
        await sub.line("subscribed")
        await sub.lines(1)
        await board.change([{"op": "replace", "path": "/title", "value": "Final"}])
        await sub.lines(2)
        await client.publish("doc:board", "a message beside it")
        assert await sub.ended() == 0, sub
    whole, changed, beside = events(sub.out)
    assert (whole["event"], whole["version"], whole["value"]) == (
        "document_get",
        1,
        {"title": "Draft"},
    )
    assert (changed["event"], changed["version"]) == ("document_updated", 2)
    assert changed["operations"] == [{"op": "replace", "path": "/title", "value": "Final"}]
    assert beside["text"] == "a message beside it"


async def test_presence_shows_who_comes_and_leaves(node: RunningNode, run: Run) -> None:
    await node.set("rules", "default", "open", Rules(public=True, presence=True))
    await node.set("hub", "default", "", HubSettings(default_rules="open"))
    sub = await run("sub", "room", "--presence", "--url", node.url)
    await sub.line("1 here: somebody")
    async with Client(node.url, hub="default") as client:
        async with client.subscribe("room"):
            await sub.line(" came")
        await sub.line(" left")


async def test_presence_that_a_channel_does_not_have_is_refused(
    node: RunningNode, run: Run
) -> None:
    sub = await run("sub", "room", "--presence", "--url", node.url)
    assert await sub.ended() == 1
    assert "presence is not enabled on this channel (1012 FEATURE_OFF)" in str(sub)


# --- connections ------------------------------------------------------------------------------------------


async def test_the_environment_says_where_to_connect(node: RunningNode, run: Run) -> None:
    environ = {"ARAUTO_URL": node.url, "ARAUTO_HUB": "shop"}
    sub = await run("sub", "a", "-n", "1", environ=environ)
    await sub.line(f"on hub shop at {node.url}")
    pub = await run("pub", "a", "x", environ=environ)
    assert await pub.ended() == 0, pub
    assert await sub.ended() == 0, sub


async def test_sub_outlives_its_node_and_says_so(start_node: StartNode, run: Run) -> None:
    first = await start_node()
    port = first.port
    sub = await run("sub", "a", "-n", "1", "--url", first.url)
    await sub.line("subscribed")
    await first.node.stop()
    await sub.line("connection lost: ")
    second = await start_node(connection={"port": port})
    await sub.line("connected again")
    await sub.line("a: not all that was missed could be recovered")
    await publish(second, "a", "back")
    assert await sub.ended() == 0, sub
    assert sub.out[-1].endswith("back")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_sub_cleanly(node: RunningNode, run: Run, number: int) -> None:
    sub = await run("sub", "a", "--url", node.url)
    await sub.line("subscribed")
    sub.interrupt(number)
    assert await sub.ended() == 0
    assert len(sub.err) == 1
    assert node.node.metrics.total().sessions_ended == 1


async def test_a_reader_that_has_seen_enough_ends_sub(
    node: RunningNode, run: Run, paste: Run
) -> None:
    program = f"{sys.executable} -m arauto sub a --url {node.url}"
    for form in ("", "--json"):
        piped = await paste(f"bash -c 'set -o pipefail; {program} {form} | head -n 1'")
        await piped.line("subscribed")
        await publish(node, "a", "seen")
        await piped.lines(1)
        await publish(node, "a", "too much")
        assert await piped.ended() == 0, piped
        assert "Traceback" not in str(piped)


async def test_a_terminal_that_cannot_show_a_letter_shows_its_number(run: Run) -> None:
    demo = await run("demo", "--no-pipeline", "--no-traffic", "--port", "0")
    url = re.findall(r"ws://[\d.:]+", await demo.line("  address"))[0]
    where = ("--url", url, "--hub", "shop")
    environ = {"PYTHONIOENCODING": "latin-1"}
    watch = await run("sub", "x", *where, "-n", "1", environ=environ)
    await watch.line("subscribed to")
    published = await run("pub", "x", "não 日", *where, environ=environ)
    assert await published.ended() == 0, published
    assert await watch.ended() == 0, watch
    assert watch.out[0].endswith("\\u65e5")
