"""The columns of a journal segment, as plain data: readable without pyarrow, by the node and by Spark alike.

Readers find `VERSION` in the file's own metadata. Adding a column raises it; columns are never renamed,
retyped or removed, so an old reader can read new segments and a new reader old ones.
"""

__all__ = ["COLUMNS", "METADATA_NODE", "METADATA_VERSION", "VERSION"]

VERSION = 2
METADATA_VERSION = "arauto.segment.version"
METADATA_NODE = "arauto.segment.node"

#: (name, type). Types in Arrow's words; `kind` holds the numbers of `arauto.storage.base.Kind`.
COLUMNS: tuple[tuple[str, str], ...] = (
    ("node", "string"),
    ("seq", "int64"),
    ("kind", "int32"),
    ("ts", "timestamp[ms, tz=UTC]"),
    ("hub", "string"),
    ("channel", "string"),
    ("epoch", "int64"),
    ("offset", "int64"),
    ("session", "string"),
    ("user", "string"),
    ("content_type", "string"),
    ("id", "string"),
    ("key", "string"),
    ("exclude", "string"),
    ("headers", "map<string, string>"),
    ("expires_ms", "int64"),
    ("payload", "binary"),
    # Since version 2: where a message without a session came from.
    ("origin", "string"),
)
