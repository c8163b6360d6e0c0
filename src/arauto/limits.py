"""Every hard limit, in one place. What an administrator may change lives in `settings` instead.

Each limit is checked before memory is spent on what exceeds it. The unit is the end of the name:
`_BYTES`, `_LEN` (a count of items), `_MS`, `_DEPTH` (levels of nesting); then `_MAX`.
"""

__all__ = [
    "BATCH_LEN_MAX",
    "CLOSE_REASON_BYTES_MAX",
    "CONTENT_TYPE_BYTES_MAX",
    "CREDENTIALS_BYTES_MAX",
    "DOCUMENT_VALUES_MAX",
    "EPOCH_MAX",
    "FRAGMENTS_LEN_MAX",
    "HEADERS_BYTES_MAX",
    "HEADERS_LEN_MAX",
    "HEADER_NAME_BYTES_MAX",
    "HISTORY_PAGE_LEN_MAX",
    "IDEMPOTENCY_KEY_BYTES_MAX",
    "JSON_DEPTH_MAX",
    "KEY_BYTES_MAX",
    "LAST_EVENT_ID_BYTES_MAX",
    "LOOSE_PATTERNS_LEN_MAX",
    "NAME_BYTES_MAX",
    "PATTERN_FORMS_LEN_MAX",
    "POSITIONS_LEN_MAX",
    "RESTORE_KEY_BYTES_MAX",
    "TRIED_PATTERNS_LEN_MAX",
    "TTL_MS_MAX",
    "UINT53_MAX",
    "UNKNOWN_BYTES_MAX",
    "VALUE_DEPTH_MAX",
]

#: The largest whole number that JSON readers keep exactly; ids, offsets and times stay below it.
UINT53_MAX = 2**53 - 1

#: Epochs are wider than other numbers, but fit the signed 64-bit columns of every store.
EPOCH_MAX = 2**63 - 1

#: Items in one request: messages published, channels (un)subscribed, document operations.
BATCH_LEN_MAX = 1_000

#: Channels whose place one subscription or one restored session may bring along.
POSITIONS_LEN_MAX = 10_000

#: Messages in one page of history.
HISTORY_PAGE_LEN_MAX = 1_000

#: Headers of one message.
HEADERS_LEN_MAX = 32

#: All header names and values of one message together.
HEADERS_BYTES_MAX = 8_192

#: One header's name.
HEADER_NAME_BYTES_MAX = 64

#: A message's content type.
CONTENT_TYPE_BYTES_MAX = 127

#: A message's idempotency key; the window keeps every key in memory.
IDEMPOTENCY_KEY_BYTES_MAX = 128

#: A message's key, for the keep-latest policy.
KEY_BYTES_MAX = 255

#: Names of RPC methods and streams, ids of notifications.
NAME_BYTES_MAX = 255

#: The key that takes up an earlier session.
RESTORE_KEY_BYTES_MAX = 256

#: What a client sends to authenticate; it is read before anyone is known.
CREDENTIALS_BYTES_MAX = 16_384

#: A message's time to live: one hundred years, so that adding it to a time stays exact.
TTL_MS_MAX = 3_155_760_000_000

#: Fields of one request that this version does not know, all together; ignoring them costs in proportion.
UNKNOWN_BYTES_MAX = 16_384

#: Values in a document, and so in one value of a change.
DOCUMENT_VALUES_MAX = 100_000

#: Lists and maps inside each other in a document value.
VALUE_DEPTH_MAX = 64

#: Arrays and objects inside each other in a JSON payload; deeper ones could break a reader's parser.
JSON_DEPTH_MAX = 128

#: Fragments of one WebSocket message; many tiny ones cost more than their bytes.
FRAGMENTS_LEN_MAX = 1_024

#: The reason in a WebSocket close frame (125 bytes of payload, two of them for the code).
CLOSE_REASON_BYTES_MAX = 123

#: The id of a server-sent event, which comes back as a request header.
LAST_EVENT_ID_BYTES_MAX = 4_096

#: Patterns of one hub that begin with a wildcard and are not `*` alone: each is tried for every channel
#: that opens.
LOOSE_PATTERNS_LEN_MAX = 256

#: Patterns of one hub with a `*` before their end that may have to be tried for one channel that opens, those
#: above among them: what begins as its name does.
TRIED_PATTERNS_LEN_MAX = 512

#: Forms that the patterns of one hub with `#` may have, that is ways to place the `#` and, at the very end, a
#: `*`: each is gone through for every channel that opens.
PATTERN_FORMS_LEN_MAX = 512
