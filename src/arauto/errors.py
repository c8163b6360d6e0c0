"""Every error Arauto can answer with, and every reason it can close a connection for.

The numbers are public: clients branch on them, so a number is never reused or renumbered. The range
says what kind of trouble it is and, for 4xxx and 5xxx, whether the client should come back:

    1xxx request          2xxx authentication, authorisation     3xxx limits
    4xxx disconnect, reconnect                                    5xxx disconnect, do not reconnect
    6xxx storage          7xxx cluster                            8xxx pipeline

`docs/protocol/errors.md` is checked against this file by a test.
"""

from enum import IntEnum

__all__ = ["ArautoError", "Code", "DisconnectError", "StorageError"]


class Code(IntEnum):
    """Public error numbers. The comment is the one-line meaning shown in the documentation."""

    # 1xxx: the request itself
    BAD_ENVELOPE = 1000  # the frame is not a valid envelope of the negotiated flavour
    UNKNOWN_EVENT = 1001  # the event name or number does not exist
    NOT_FROM_CLIENT = 1002  # the event exists but only the server may send it
    BAD_FIELD = 1003  # a field is missing, has the wrong type or breaks a rule
    BAD_HUB_NAME = 1004  # the hub name breaks the naming rules
    BAD_CHANNEL_NAME = 1005  # the channel name or pattern breaks the naming rules
    UNKNOWN_HUB = 1006  # the hub does not exist and hubs are not created on use
    UNKNOWN_RULES = 1007  # no rules with that id in this hub
    NOT_FOUND = 1008  # the thing asked for does not exist
    ALREADY_SUBSCRIBED = 1009  # this session already holds that subscription
    NOT_SUBSCRIBED = 1010  # this session holds no such subscription
    NOT_AVAILABLE = 1011  # the event exists in the protocol but this node does not offer it
    FEATURE_OFF = 1012  # the channel's rules do not enable this feature
    WRONG_CHANNEL_TYPE = 1013  # the operation does not fit this type of channel
    BAD_OPERATION = 1014  # a document operation cannot be applied
    TEST_FAILED = 1015  # a document `test` operation did not match
    VERSION_MISMATCH = 1016  # the document is not at the expected version
    BAD_RESTORE_KEY = 1017  # the restore key is unknown, used or expired
    MESSAGE_EXPIRED = 1018  # the message's expiry lies in the past
    CONFLICT = 1019  # the change contradicts the current state
    BAD_CONFIG = 1020  # the configuration is invalid
    NO_ANSWER = 1021  # no answer came in time; the request may or may not have been carried out

    # 2xxx: who you are, what you may do
    UNAUTHENTICATED = 2000  # this needs an authenticated session
    AUTH_FAILED = 2001  # the auth provider refused, nobody can check, or it was withdrawn
    AUTH_UNAVAILABLE = 2002  # the hub's auth provider did not answer
    TOKEN_INVALID = 2003  # the node checked the token itself, and it is not valid here
    TOKEN_EXPIRED = 2004  # the token was valid once
    SUBSCRIBE_DENIED = 2005  # no grant or rule lets this session subscribe
    PUBLISH_DENIED = 2006  # no grant or rule lets this session publish
    ANONYMOUS_DENIED = 2007  # the hub or channel refuses anonymous sessions
    ADMIN_DENIED = 2008  # the admin token is missing or wrong
    ORIGIN_DENIED = 2009  # the web page's origin, or the host asked for, is not on the list
    CALL_DENIED = 2010  # no grant lets this user call that method

    # 3xxx: limits
    RATE_LIMITED = 3000  # this session sends too many messages per second
    MESSAGE_TOO_LARGE = 3001  # the message is larger than the hub allows
    TOO_MANY_SESSIONS = 3002  # the hub's session quota is used up
    TOO_MANY_CHANNELS = 3003  # the hub's channel quota is used up
    TOO_MANY_SUBSCRIPTIONS = 3004  # this session's subscription quota is used up
    HUB_RATE_LIMITED = 3005  # the hub's messages-per-second quota is used up
    TOO_MANY_PENDING = 3006  # too many requests are waiting; retry later
    BATCH_TOO_LARGE = 3007  # more items in one request than allowed
    DOCUMENT_TOO_LARGE = 3008  # the change would make the document too large or too deep
    TOO_MANY_MATCHES = 3009  # the pattern matches more channels than can be listed
    TOO_MANY_HUBS = 3010  # strangers have made up too many hubs, on this node or from this address
    DOCUMENTS_FULL = 3011  # the open documents of the hub, or of the node, take too much memory
    REQUEST_TOO_LARGE = 3012  # the HTTP request's headers or body are larger than the node allows

    # 4xxx: the connection ends; reconnecting is right
    GOING_AWAY = 4000  # the node is shutting down or draining
    HEARTBEAT_LOST = 4001  # nothing was heard from the client in time
    SLOW_CONSUMER = 4002  # the client did not read fast enough for its channel's policy
    SESSION_REPLACED = 4003  # the session was restored on another connection
    SERVER_ERROR = 4004  # an unexpected error; it was logged
    HUB_CLOSED = 4005  # the hub was closed
    OVERLOADED = 4006  # the node admits no more connections just now
    CONNECTION_LOST = 4007  # the connection broke or could not be made (raised by clients only)
    REQUEST_TOO_SLOW = 4008  # the HTTP request did not arrive in time

    # 5xxx: the connection ends; reconnecting the same way would fail again
    CLOSED_BY_CLIENT = 5000  # the client said Close
    AUTH_DEADLINE = 5001  # the hub refuses anonymous sessions and none authenticated in time
    PROTOCOL_VIOLATION = 5002  # the connection broke the protocol
    FORCED_LOGOUT = 5003  # an administrator ended the session
    BAD_TEXT = 5004  # a text frame was not UTF-8
    FRAME_TOO_LARGE = 5005  # a frame or reassembled message was over the limit
    HANDSHAKE_REFUSED = 5006  # the connection request itself was refused
    TOO_MANY_ERRORS = 5007  # the client kept sending bad requests

    # 6xxx: storage
    STORAGE_FAILED = 6000  # the store refused the write; nothing was acknowledged
    STORAGE_FULL = 6001  # the disk is full; nothing was acknowledged
    STORAGE_UNAVAILABLE = 6002  # the store cannot be reached
    STORAGE_READ_ONLY = 6003  # the store cannot be written
    STORAGE_CORRUPT = 6004  # what was read does not check out
    STORAGE_SHARE_FULL = 6005  # too many of this hub's writes wait for the store; others have room

    # 7xxx: cluster
    NOT_OWNER = 7000  # this node does not own the channel

    # 8xxx: the data pipeline
    BAD_RULE = 8000  # a correlation rule is invalid; the message names the line
    BAD_QUERY = 8001  # the SQL is not a single read-only query over this hub's views
    NO_JAVA = 8002  # no Java that can run Spark was found
    OFFSET_TRIMMED = 8003  # the rows asked for are no longer in the journal
    LAKE_CORRUPT = 8004  # a table of the lake does not check out
    LAKE_BUSY = 8005  # another pipeline writes to this lake
    SCHEMA_MISMATCH = 8006  # a table or segment was written by a newer version
    NODE_UNREACHABLE = 8007  # the node's admin API did not answer
    QUERY_LIMIT = 8008  # the query ran longer or returned more than allowed
    NO_SPARK = 8009  # the pipeline's packages are not installed
    SPARK_ENDED = 8010  # Spark's Java ended while it was needed


#: Codes where the same request may succeed later without change.
_RETRYABLE = frozenset(
    {
        Code.AUTH_UNAVAILABLE,
        Code.RATE_LIMITED,
        Code.TOO_MANY_SESSIONS,
        Code.TOO_MANY_CHANNELS,
        Code.HUB_RATE_LIMITED,
        Code.TOO_MANY_PENDING,
        Code.TOO_MANY_HUBS,
        Code.DOCUMENTS_FULL,
        Code.STORAGE_FAILED,
        Code.STORAGE_FULL,
        Code.STORAGE_UNAVAILABLE,
        Code.STORAGE_READ_ONLY,
        Code.STORAGE_SHARE_FULL,
        Code.NOT_OWNER,
        Code.LAKE_BUSY,
        Code.NODE_UNREACHABLE,
        Code.SPARK_ENDED,
    }
)


class ArautoError(Exception):
    """The root of every error raised on purpose.

    Attributes:
        code: the public number.
        message: a sentence for a person; never contains payloads or secrets.
        field: the request field at fault, or "".
        told: the sentence for clients; the message itself, unless that is for operators only.
    """

    def __init__(self, code: Code, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later, or the client should reconnect."""
        return self.code in _RETRYABLE or 4000 <= self.code < 5000

    @property
    def told(self) -> str:
        """What clients are told."""
        return self.message

    def __str__(self) -> str:
        where = f" ({self.field})" if self.field else ""
        return f"[{int(self.code)} {self.code.name}] {self.message}{where}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


class DisconnectError(ArautoError):
    """Ends the connection it is raised on; the code's range tells the client whether to return."""


class StorageError(ArautoError):
    """A storage adapter's failure, translated once at the adapter (6xxx).

    The message names files, servers and the database's own words: it is for the operator's log. Clients are
    told the same sentence for the same code, whatever happened.
    """

    @property
    def told(self) -> str:
        """What clients are told; nothing that belongs to the machine."""
        return _STORAGE_TOLD[self.code]


_STORAGE_TOLD = {
    Code.STORAGE_FAILED: "the storage refused the operation; nothing was acknowledged",
    Code.STORAGE_FULL: "the storage is full; nothing was acknowledged",
    Code.STORAGE_UNAVAILABLE: "the storage is not available just now; retry later",
    Code.STORAGE_READ_ONLY: "the storage cannot be written just now",
    Code.STORAGE_CORRUPT: "what is stored cannot be read; the operator's log says more",
    Code.STORAGE_SHARE_FULL: "too many of this hub's writes wait for the storage; retry later",
}
