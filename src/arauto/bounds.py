"""The configuration → the bounds that hubs and channels are given. Pure."""

from arauto.config.schema import Config
from arauto.hub.environment import HubLimits
from arauto.hub.holdings import Pools
from arauto.hub.made_on_use import StrangerLimits
from arauto.hub.share import Pool

__all__ = ["hub_limits", "pools", "stranger_limits"]


def hub_limits(config: Config) -> HubLimits:
    """What holds for every hub and channel of the node."""
    channel, limits = config.channel, config.limits
    history_len = config.engine.max_live_history_size if channel.enable_live_history else 0
    return HubLimits(
        hub_close_s=config.hub.close_timeout_s,
        channel_close_s=channel.close_timeout_s,
        settings_refresh_s=config.hub.settings_refresh_s,
        history_page_len=channel.history_page_size,
        recovery_len_max=channel.recovery_max,
        replay_bytes_max=limits.replay_bytes_max,
        live_history_len_max=history_len,
        presence_page_len=channel.presence_page_size,
        pattern_positions_len_max=limits.pattern_matches_max,
        pending_per_channel_max=limits.pending_per_channel_max,
        stored_inflight_max=limits.stored_in_flight_max,
        snapshot_interval_s=channel.document_snapshot_interval_s,
        retain_s_max=channel.retain_msg_duration_s,
        document_bytes_max=limits.document_bytes_max,
    )


def pools(config: Config) -> Pools:
    """What all hubs together may hold in memory, in bytes."""
    limits = config.limits
    return Pools(
        live_history=Pool(limits.live_history_bytes_max),
        idempotency=Pool(limits.idempotency_bytes_max),
        retained=Pool(limits.retained_bytes_max, leaves_room=True),
        backlogs=Pool(limits.backlogs_bytes_max, leaves_room=True),
        documents=Pool(limits.documents_bytes_max, leaves_room=True),
    )


def stranger_limits(config: Config) -> StrangerLimits:
    """What holds for hubs that a stranger has made."""
    strangers = config.hub.strangers
    return StrangerLimits(
        hubs_max=strangers.hubs_max,
        hubs_per_address_max=strangers.hubs_per_address_max,
        close_s=strangers.close_timeout_s,
        sessions_max=strangers.sessions_max,
        channels_max=strangers.channels_max,
        live_history_bytes_max=strangers.live_history_bytes_max,
        idempotency_bytes_max=strangers.idempotency_bytes_max,
        retained_bytes_max=strangers.retained_bytes_max,
        backlogs_bytes_max=strangers.backlogs_bytes_max,
        documents_bytes_max=strangers.documents_bytes_max,
    )
