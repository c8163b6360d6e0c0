"""What a node wrote under an earlier name: nobody exports it, since a node exports its own journal only."""

from pathlib import Path

import structlog

from arauto.config.schema import Config
from arauto.errors import ArautoError
from arauto.pipeline.feed import journal_url
from arauto.pipeline.source.journal import Journal
from arauto.pipeline.unexported import waiting
from arauto.storage.export import export
from arauto.storage.incarnation import node_of

__all__ = ["export_renamed"]

_log = structlog.get_logger(__name__)

#: Payloads in one segment, about.
_SEGMENT_BYTES = 64 * 1_048_576


def export_renamed(config: Config, directory: Path) -> list[str]:
    """Export the journals of names that the node of this data directory had before; which they are.

    Only for SQLite, whose database belongs to one node. Elsewhere other names are other nodes.
    """
    if config.storage.kind != "sqlite" or not config.journal.export.enabled:
        return []
    exported = []
    for name in _names(config, directory):
        try:
            settings = config.journal.export
            report = export(journal_url(config), name, directory, settings.rows_max, _SEGMENT_BYTES)
        except (ArautoError, OSError) as error:
            _tell(error)
            continue
        if report.rows:
            _log.info("exported what the node wrote under another name", name=name)
            exported.append(name)
    return exported


def _names(config: Config, directory: Path) -> list[str]:
    """Other names than the present one of which rows wait."""
    try:
        journal = Journal(journal_url(config), directory, frozenset())
        try:
            found = waiting(journal.places(), directory, {})
        finally:
            journal.close()
    except (ArautoError, OSError) as error:
        _tell(error)
        return []
    return sorted({node_of(each.node) for each in found} - {config.node.name})


def _tell(error: Exception) -> None:
    # Backfill and check tell what is still missing.
    _log.warning("what the node wrote under another name was not exported", error=str(error))
