"""The Python client. `Client` is asynchronous; `arauto.client.blocking.Client` is its blocking face."""

from arauto.client.backoff import Backoff
from arauto.client.client import Client
from arauto.client.document import Document, Update
from arauto.client.drafts import Draft
from arauto.client.failures import (
    ConnectionLostError,
    PartialPublishError,
    RefusedError,
    RequestTimeoutError,
    SlowConsumerError,
)
from arauto.client.history import History, Page
from arauto.client.options import Tuning
from arauto.client.received import Received, SubscriptionEvent
from arauto.client.state import State
from arauto.client.subscription import Overflow, Subscription
from arauto.codec.events import Gap, Join, Leave, Occupancy, Presence, SubscribeResult
from arauto.model import Direction, Serial

__all__ = [
    "Backoff",
    "Client",
    "ConnectionLostError",
    "Direction",
    "Document",
    "Draft",
    "Gap",
    "History",
    "Join",
    "Leave",
    "Occupancy",
    "Overflow",
    "Page",
    "PartialPublishError",
    "Presence",
    "Received",
    "RefusedError",
    "RequestTimeoutError",
    "Serial",
    "SlowConsumerError",
    "State",
    "SubscribeResult",
    "Subscription",
    "SubscriptionEvent",
    "Tuning",
    "Update",
]
