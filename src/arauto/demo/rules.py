"""The demo's correlation rules, which the data pipeline runs beside the node. Pure."""

__all__ = ["ALERTS", "RULES"]

#: Where their results go: `alerts:<what>`.
ALERTS = "alerts:"

RULES: dict[str, str] = {
    # Many orders in one shop within a short while.
    "rush-hour": f"""
rule: rush-hour
version: 1
from: {{channels: ["/orders/pt"]}}
key: [channel]
count: {{}}
window: 20s
every: 10s
when: "count() >= 8"
emit:
  channel: {ALERTS}rush
  payload: {{shop: "key.channel", orders: "count()"}}
  cooldown: 30s
""".lstrip(),
    # A shelf that is nearly empty and stays so: the van did not come in time.
    "shelf-stays-low": f"""
rule: shelf-stays-low
version: 1
from: {{channels: ["stock:*"]}}
key: [channel]
let: {{level: "cast(payload.level as double)"}}
hold: {{start: "level < 6", cancel: "level >= 6", for: 4s}}
emit:
  channel: {ALERTS}stock
  payload: {{shelf: "key.channel", level: "last.level"}}
""".lstrip(),
}
