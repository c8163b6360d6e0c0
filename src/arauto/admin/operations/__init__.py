"""What an administrator can do, whatever the transport. Each verb is written once, here."""

from collections.abc import Callable

from arauto.admin.operations import checks
from arauto.admin.operations.analytics import Analytics
from arauto.admin.operations.changes import Changes
from arauto.admin.operations.correlations import Correlations
from arauto.admin.operations.hubs import Hubs
from arauto.admin.operations.journal import Exporting, JournalVerbs
from arauto.admin.operations.live import Live
from arauto.admin.operations.parts import Parts
from arauto.admin.operations.sessions import Sessions
from arauto.admin.operations.states import States
from arauto.admin.operations.stats import Stats
from arauto.admin.records import NodeInfo
from arauto.admin.revoked import RevokedUsers
from arauto.names import check_channel, check_id, check_kept
from arauto.session.environment import SessionEnvironment
from arauto.settings import ChannelSettings, HubSettings, NamespaceSettings, Rules
from arauto.telemetry.intervals import Intervals

__all__ = ["Operations"]


class Operations:
    """The verbs, by what they act on. One per node; built by the composition root."""

    def __init__(
        self,
        env: SessionEnvironment,
        *,
        revoked: RevokedUsers,
        intervals: Intervals,
        defaults: HubSettings,
        builtin_rules: Rules,
        dynamic_hubs: bool,
        describe_node: Callable[[], NodeInfo],
        exporting: Exporting,
    ) -> None:
        """Put the verbs together.

        Args:
            env: hubs, sessions and storage of the node.
            revoked: whom its authenticator no longer lets in.
            intervals: its counters over time.
            defaults: settings of hubs that were made on use.
            builtin_rules: rules of channels that have no others.
            dynamic_hubs: whether hubs are made on use.
            describe_node: says what the node is and what it has open.
            exporting: says how to have the journal exported.
        """
        directory, storage, clock = env.directory, env.hub.storage, env.hub.clock
        store = storage.settings
        changes = Changes(directory, storage.journal, clock)
        states = States(
            directory,
            store,
            defaults=defaults,
            builtin_rules=builtin_rules,
            dynamic_hubs=dynamic_hubs,
        )
        self.hubs = Hubs(directory, store, states, changes, env.restorer)
        self.rules: Parts[Rules] = Parts(
            store,
            states,
            changes,
            kind="rules",
            settings_type=Rules,
            check_id=_check_part_id,
            check=checks.check_rules,
            users=checks.users_of_rules,
        )
        self.namespaces: Parts[NamespaceSettings] = Parts(
            store,
            states,
            changes,
            kind="namespace",
            settings_type=NamespaceSettings,
            check_id=_check_part_id,
            check=checks.check_namespace_settings,
        )
        self.channel_settings: Parts[ChannelSettings] = Parts(
            store,
            states,
            changes,
            kind="channel",
            settings_type=ChannelSettings,
            check_id=check_channel,
            check_kept=check_kept,
            check=checks.check_channel_settings,
        )
        self.live = Live(env, states)
        self.sessions = Sessions(states, changes, revoked, env.restorer)
        self.correlations = Correlations(store, states, changes)
        self.analytics = Analytics(storage.kv, clock)
        self.journal = JournalVerbs(changes, exporting)
        self.stats = Stats(states, env.hub.metrics, intervals, describe_node)


def _check_part_id(id: str) -> str:
    return check_id(id, "id")
