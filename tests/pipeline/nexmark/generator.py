"""A small Nexmark: people who open auctions and bid, as rows of a journal. Seeded, so always the same."""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.pipeline.rules.support import T0, message

__all__ = ["HUB", "Happening", "generate", "rows_of"]

HUB = "nexmark"


@dataclass(frozen=True)
class Happening:
    """A person, an auction or a bid; `body` is what is published."""

    seq: int
    ts: int
    channel: str
    body: dict[str, Any]


def generate(count: int, *, seed: int = 11) -> list[Happening]:
    """Of fifty happenings about one is a person and three are auctions; the rest are bids on few auctions."""
    random = Random(seed)
    made: list[Happening] = []
    people: list[int] = []
    auctions: list[int] = []
    ts = T0
    for seq in range(1, count + 1):
        ts += random.randrange(1, 300)
        choice = random.random()
        if choice < 0.02 or not people:
            people.append(1_000 + len(people))
            body: dict[str, Any] = {"id": people[-1], "name": f"person {people[-1]}"}
            made.append(Happening(seq, ts, "persons", body))
        elif choice < 0.08 or not auctions:
            auctions.append(2_000 + len(auctions))
            # Mostly someone who has just come.
            body = {"id": auctions[-1], "seller": random.choice(people[-3:])}
            made.append(Happening(seq, ts, "auctions", body))
        else:
            body = {
                "auction": random.choice(auctions[-2:]),
                "bidder": random.choice(people[-2:]),
                "price": random.randrange(1, 400) * 50,
                "dateTime": ts,
            }
            made.append(Happening(seq, ts, "bids", body))
    return made


def rows_of(happenings: list[Happening]) -> list[dict[str, Any]]:
    """As the journal has them."""
    return [
        message(h.seq, h.ts - T0, json.dumps(h.body), hub=HUB, channel=h.channel)
        for h in happenings
    ]
