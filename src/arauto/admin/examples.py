"""Examples of the records that people write by hand, for the API's description. A test reads each back."""

from typing import Any, Final

__all__ = ["EXAMPLES"]

#: Record → examples of it.
EXAMPLES: Final[dict[str, list[dict[str, Any]]]] = {
    "HubSettings": [
        {
            "allowAnonymous": False,
            "jwt": {"jwksUrl": "https://id.example/keys.json", "issuer": "https://id.example"},
            "allowedOrigins": ["https://shop.example"],
            "quotas": {"sessionsMax": 5000, "messagesPerS": 200},
        }
    ],
    "Rules": [{"public": True, "presence": True, "store": "all", "storeS": 2592000}],
    "NamespaceSettings": [{"rules": "chat"}],
    "ChannelSettings": [{"rules": "chat", "metadata": {"title": "Support"}}],
    "PublishBody": [
        {
            "messages": [
                {"channel": "stock:42", "data": {"left": 7}, "retain": True},
                {"channel": "news", "text": "We open at nine.", "idempotency_key": "open-0901"},
            ]
        }
    ],
    "CorrelationBody": [
        {
            "text": "rule: large-order\nversion: 1\nfrom: {channels: ['orders:*']}\n"
            "match: payload.total >= 1000\n"
            "emit: {channel: 'alerts:orders', payload: {total: payload.total}}\n",
            "enabled": True,
        }
    ],
    "RollupBody": [
        {
            "rows": [
                {
                    "period": "5m",
                    "hub": "shop",
                    "startMs": 1794819600000,
                    "values": {"messagesIn": 600, "bytesIn": 42000, "sessionsPeak": 31},
                },
                {
                    "period": "day",
                    "hub": "",
                    "startMs": 1794787200000,
                    "values": {"sessionsEnded": 812, "durationMeanMs": 91250.5},
                },
            ]
        }
    ],
    "Problem": [
        {
            "code": 1007,
            "message": "this hub has no rules with that id; set them first",
            "field": "rules",
        }
    ],
}
