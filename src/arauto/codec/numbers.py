"""The number of each event on the wire. Never reused."""

from enum import IntEnum

__all__ = ["EventType"]


class EventType(IntEnum):
    """Event numbers on the wire (protobuf flavour); the JSON flavour uses the lower-case names."""

    PING = 1
    PONG = 2
    CLOSE = 3
    SESSION_INFO = 4
    SESSION_RESTORE = 5
    SESSION_RESTORED = 6
    AUTH = 7
    SUBSCRIBE = 8
    UNSUBSCRIBE = 9
    PUBLISH = 10
    ACK = 11
    JOIN = 12
    LEAVE = 13
    PRESENCE = 14
    OCCUPANCY = 15
    HISTORY = 16
    RPC = 17
    STREAM_ENQUEUE = 18
    DOCUMENT_GET = 19
    DOCUMENT_CHANGE = 20
    DOCUMENT_UPDATED = 21
    DOCUMENT_INFO = 22
    NOTIFICATION_NEW = 23
    NOTIFICATION_READ = 24
    NOTIFICATION_INFO = 25
    MARK_NOTIFICATION_AS_READ = 26
    ERROR = 27
    GAP = 28
