"""The composition root: the only place that builds concrete parts and joins them to a node."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

import arauto
from arauto.admin.app import make_app
from arauto.admin.operations import Operations
from arauto.admin.records import ListenerInfo, NodeInfo
from arauto.admin.revoked import RevokedUsers
from arauto.bounds import hub_limits, pools, stranger_limits
from arauto.clock import Clock, SystemClock
from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec
from arauto.codec.sse import SseCodec
from arauto.codec.websocket import binary_frame, text_frame
from arauto.config.edges import HttpConfig
from arauto.config.schema import Config
from arauto.entropy import Entropy, SystemEntropy
from arauto.errors import ArautoError, Code, StorageError
from arauto.gateways.guard import Admission, HttpLimits, Upgrade, response
from arauto.gateways.pages import Pages
from arauto.gateways.port import Port
from arauto.gateways.rest import Rest
from arauto.gateways.sse import SseGateway
from arauto.gateways.websocket import WebSocketGateway
from arauto.hosts import Hosts
from arauto.hub.directory import Directory
from arauto.hub.environment import Environment
from arauto.hub.fanout import Format, Turn
from arauto.hub.refusals import Refusals
from arauto.recorder import Recorder
from arauto.registry import CHANNEL_TYPES, FEATURES, open_storage
from arauto.scrape import build_scrape
from arauto.session.auth.addresses import AddressPolicy
from arauto.session.auth.authenticator import Authenticator
from arauto.session.auth.jwt import JwtVerifier
from arauto.session.auth.outbound import OutboundClient
from arauto.session.auth.provider import HttpAuthProvider
from arauto.session.auth.revocations import Revocations
from arauto.session.auth.tokens import SessionTokens
from arauto.session.environment import SessionEnvironment, SessionLimits
from arauto.session.restore import Restorer
from arauto.session.wheel import TimerWheel
from arauto.settings import AuthProvider
from arauto.storage.base import Storage
from arauto.storage.exporter import Exporter, ExportSettings
from arauto.tasks import TaskSet
from arauto.telemetry.intervals import Intervals
from arauto.telemetry.metrics import HubGauges, Metrics
from arauto.telemetry.prometheus import PrometheusExporter

if TYPE_CHECKING:
    from arauto.telemetry.tracing import Tracing

__all__ = ["Node"]

_log = structlog.get_logger("arauto.node")

#: Administrators, scrapers and dashboards; more than this at once is none of them.
_ADMIN_CONNECTIONS_MAX = 256
#: How far the journal may be ahead of the clock and still be believed.
_AHEAD_MS_MAX = 3_600_000


class Node:
    """One server process. `start` opens everything or nothing; `stop` lets go in the reverse order."""

    def __init__(
        self, config: Config, *, clock: Clock | None = None, entropy: Entropy | None = None
    ) -> None:
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self.entropy: Entropy = entropy or SystemEntropy()
        self.metrics = Metrics()
        self.tasks = TaskSet(_report)
        self.revocations = Revocations(self.clock)
        self.status = "starting"
        """`ok` while it serves, `stopping` in the end."""
        self.generated_secrets: list[str] = []
        """Secrets made up for this run, because the configuration has none."""
        self.admin_token = self._secret(config.admin.token, "admin.token", 32)
        self._session_secret = self._secret(config.auth.session.secret, "auth.session.secret", 64)
        self._started_ms = self.clock.wall_ms()
        self._started_s = self.clock.monotonic_s()
        self.exporter: Exporter | None = None
        self._tracing: Tracing | None = None
        self._closers: list[Callable[[], Awaitable[Any]]] = []
        self.storage: Storage
        self.env: Environment
        self.sessions: SessionEnvironment
        self.directory: Directory
        self.intervals: Intervals
        self.recorder: Recorder
        self.operations: Operations
        self.admin_port: Port
        self.port: Port
        self.websocket: WebSocketGateway
        self.sse: SseGateway

    # --- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open storage and ports.

        Raises:
            ArautoError: storage or configuration trouble; OSError: a port is taken.
        """
        try:
            await self._start()
        except BaseException:
            await self._close_all()
            raise

    async def _start(self) -> None:
        self.storage = await open_storage(self.config, self.clock)
        self._closers.append(self.storage.close)
        self._closers.append(lambda: self.tasks.close(self.config.node.shutdown_grace_s))
        self._build_hubs(await self._newest_ms())
        self._closers.append(self.directory.close)
        self._build_sessions()
        self._build_intervals()
        self._start_exporter()
        await self._open_admin_port()
        await self._open_port()
        self.directory.start()
        self.sessions.wheel.start()
        self.intervals.start()
        self.recorder.start()
        self.status = "ok"

    async def stop(self) -> None:
        """Send clients away, write what is pending, release everything."""
        if self.status == "stopping":
            return
        self.status = "stopping"
        self.recorder.stop()
        self.port.stop_listening()
        for gateway in (self.websocket, self.sse):
            gateway.drain(Code.GOING_AWAY, "the node is shutting down")
        await self._close_all()

    async def _close_all(self) -> None:
        while self._closers:
            await self._closers.pop()()

    # --- building ----------------------------------------------------------------------------------

    async def _newest_ms(self) -> int:
        """The time of the journal's newest row, so that time goes on from there; 0 if it is no use."""
        journal = self.storage.journal
        try:
            rows = await journal.read(journal.last_seq - 1, 1)
        except StorageError:
            return 0  # a damaged row must not keep the node from starting
        newest_ms = max((entry.ts_ms for _, entry in rows), default=0)
        # A clock that was far ahead is not followed for ever.
        return newest_ms if newest_ms <= self.clock.wall_ms() + _AHEAD_MS_MAX else 0

    def _build_hubs(self, began_ms: int) -> None:
        config = self.config
        self.env = Environment(
            node=config.node.name,
            clock=self.clock,
            entropy=self.entropy,
            turn=Turn(self.clock),
            storage=self.storage,
            metrics=self.metrics,
            tasks=self.tasks,
            features=FEATURES,
            channel_types=CHANNEL_TYPES,
            journal_subscriptions=config.journal.subscriptions,
            began_ms=began_ms,
            limits=hub_limits(config),
            pools=pools(config),
        )
        self.directory = Directory(
            self.env,
            defaults=config.hub.defaults,
            builtin_rules=config.hub.default_rules,
            allow_dynamic=config.engine.allow_dynamic_hubs,
            own_hub=config.pipeline.system_hub if config.pipeline.rollup_channel else "",
            hubs_max=config.limits.hubs_max,
            strangers=stranger_limits(config),
        )
        self.metrics.set_gauges(self._gauges)

    def _build_sessions(self) -> None:
        config = self.config
        session = config.session
        self._tracing = tracing = self._start_tracing()
        self.sessions = SessionEnvironment(
            hub=self.env,
            directory=self.directory,
            authenticator=self._build_authenticator(),
            restorer=Restorer(self.storage.kv, self.clock, session.restore_ttl_s),
            wheel=TimerWheel(self.clock),
            limits=SessionLimits(
                auth_deadline_s=session.auth_deadline_s,
                ping_interval_s=session.ping_interval_s,
                pong_timeout_s=session.pong_timeout_s,
                errors_max=session.errors_max,
                message_bytes_max=config.connection.ws.max_message_bytes,
                history_requests_max=session.history_requests_max,
                restore_save_delay_s=session.restore_save_delay_s,
            ),
            refusals=Refusals("", self.metrics.node, self.clock, self.storage.journal),
            trace_publish=tracing.trace_publish if tracing is not None else None,
        )

    def _build_authenticator(self) -> Authenticator:
        auth = self.config.auth
        policy = AddressPolicy(
            auth.provider_allowlist,
            allow_private=auth.provider_allow_private_networks,
        )
        outbound = OutboundClient(policy, response_bytes_max=auth.provider_response_bytes_max)
        timeout_s = self.config.hub.authenticate_request_timeout_s

        async def fetch(hub: str, url: str) -> bytes:
            return await outbound.get(hub, url)

        def make_provider(settings: AuthProvider) -> HttpAuthProvider:
            return HttpAuthProvider(settings, outbound, self.clock, timeout_max_s=timeout_s)

        authenticator = Authenticator(
            clock=self.clock,
            tokens=SessionTokens(
                secret=self._session_secret,
                clock=self.clock,
                entropy=self.entropy,
                revocations=self.revocations,
                algorithm=auth.algorithm,
                issuer=auth.issuer,
                ttl_s=auth.token_ttl_s,
                skew_s=auth.clock_skew_s,
            ),
            jwt=JwtVerifier(
                clock=self.clock,
                revocations=self.revocations,
                fetch=fetch,
                refresh_s=auth.jwks_refresh_s,
                skew_s=auth.clock_skew_s,
            ),
            revocations=self.revocations,
            make_provider=make_provider,
        )

        async def close() -> None:
            authenticator.close()
            await outbound.aclose()

        self._closers.append(close)
        return authenticator

    def _build_intervals(self) -> None:
        engine = self.config.engine
        self.recorder = Recorder(
            self.storage.journal, self.clock, self.config.journal.heartbeat_interval_s
        )
        self.intervals = Intervals(
            self.metrics,
            self.clock,
            interval_s=engine.stats_collect_interval_s,
            keep_len=engine.stats_keep_intervals,
            on_interval=self.recorder.record,
            sample_interval_s=engine.session_metrics_interval_s,
        )

        async def stop() -> None:
            self.sessions.stop()  # first: what ends with it counts in the last interval
            self.intervals.stop()
            await self.storage.journal.flush()

        self._closers.append(stop)

    async def _open_port(self) -> None:
        connection = self.config.connection
        origins = connection.allowed_origins
        hosts = Hosts(
            connection.host,
            connection.allowed_hosts,
            setting="connection.allowedHosts",
            origins=origins,
        )
        pages = Pages(self.directory, origins, hosts)
        proto, json = ProtoCodec(), JsonCodec()
        formats = {
            proto.name: Format(proto.name, proto, binary_frame),
            json.name: Format(json.name, json, text_frame),
        }
        self.websocket = WebSocketGateway(self.sessions, formats, pages=pages, limits=connection.ws)
        sse_codec = SseCodec()
        self.sse = sse = SseGateway(
            self.sessions,
            Format(sse_codec.name, sse_codec, bytes),
            pages=pages,
            send_buffer_bytes=connection.sse.send_buffer_bytes,
            channels_max=connection.sse.channels_max,
            keep_alive_s=connection.sse.keep_alive_s,
        )
        rest = Rest(
            self.sessions,
            pages=pages,
            status=lambda: self.status,
            registry=self.operations.correlations,
        )

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await (sse if scope["path"] == "/v1/sse" else rest)(scope, receive, send)

        self.port = Port(
            app,
            limits=_http_limits(connection.http, connection.http.body_bytes_max),
            admission=Admission(connection.max_connections, connection.connections_per_ip_max),
            upgrade=self.websocket.upgrade,
            count=self.metrics.node.refuse,
            keep_alive_s=connection.http.keep_alive_timeout_s,
            tls=_tls(connection.tls.cert_file, connection.tls.key_file),
        )
        grace_s = self.config.node.shutdown_grace_s
        await self.port.listen(connection.host, connection.port)
        self._closers.append(lambda: self.port.close(grace_s))

    # --- administration ----------------------------------------------------------------------------

    def _secret(self, configured: str, path: str, size_bytes: int) -> str:
        """The configured secret or, in development, one for this run only."""
        if configured:
            return configured
        if self.config.node.mode == "production":
            raise ArautoError(Code.BAD_CONFIG, "must be set in production", field=path)
        made_up = self.entropy.token(size_bytes)
        self.generated_secrets.append(made_up)
        return made_up

    async def _open_admin_port(self) -> None:
        config = self.config
        revoked = RevokedUsers(self.revocations, self.storage.kv, self.clock)
        await revoked.load()
        self.operations = Operations(
            self.sessions,
            revoked=revoked,
            intervals=self.intervals,
            defaults=config.hub.defaults,
            builtin_rules=config.hub.default_rules,
            dynamic_hubs=config.engine.allow_dynamic_hubs,
            describe_node=self._describe,
            exporting=lambda: self.exporter.export_now if self.exporter is not None else None,
        )
        hosts = Hosts(config.admin.host, config.admin.allowed_hosts, setting="admin.allowedHosts")
        app = make_app(
            self.operations,
            token=self.admin_token,
            hosts=hosts,
            counters=self.metrics.node,
            status=lambda: self.status,
            scrape=self._build_scrape(),
        )
        http = config.connection.http
        self.admin_port = Port(
            app,
            limits=_http_limits(http, config.admin.body_bytes_max),
            admission=Admission(_ADMIN_CONNECTIONS_MAX),
            upgrade=self._no_upgrade,
            count=self.metrics.node.refuse,
            keep_alive_s=http.keep_alive_timeout_s,
        )
        await self.admin_port.listen(config.admin.host, config.admin.port)
        self._closers.append(lambda: self.admin_port.close(config.node.shutdown_grace_s))

    def _no_upgrade(self, request: Upgrade) -> bytes:
        self.metrics.node.refuse(Code.HANDSHAKE_REFUSED)
        return response(404, Code.HANDSHAKE_REFUSED, "there is no WebSocket here")

    def _describe(self) -> NodeInfo:
        config = self.config
        connection = config.connection
        return NodeInfo(
            name=config.node.name,
            version=arauto.__version__,
            mode=config.node.mode,
            started_ms=self._started_ms,
            uptime_s=self.clock.monotonic_s() - self._started_s,
            listeners=[
                ListenerInfo(
                    name="client",
                    host=connection.host,
                    port=self.port.port,
                    tls=bool(connection.tls.cert_file),
                ),
                ListenerInfo(
                    name="admin", host=config.admin.host, port=self.admin_port.port, tls=False
                ),
            ],
            storage=config.storage.kind,
            dynamic_hubs=config.engine.allow_dynamic_hubs,
        )

    # --- telemetry and the journal -----------------------------------------------------------------

    def _build_scrape(self) -> PrometheusExporter | None:
        if not self.config.telemetry.metrics:
            return None
        return build_scrape(
            self.config,
            self.metrics,
            self.storage.counters,
            exporter=self.exporter.counters if self.exporter is not None else None,
            tracing=self._tracing,
            encodings=self.env.encodings,
            evicted_callers=lambda: self.sessions.callers.evicted,
            read_buffers=lambda: self.websocket.buffers,
            states_left_out=lambda: self.sessions.restorer.left_out,
            refused_connections=lambda: (
                self.port.admission.refused + self.admin_port.admission.refused
            ),
        )

    def _start_tracing(self) -> "Tracing | None":
        telemetry = self.config.telemetry
        if not telemetry.otlp_endpoint:
            return None
        # Only here: loading it costs time and memory that a node without tracing need not spend.
        from arauto.telemetry.tracing import start_tracing

        tracing = start_tracing(
            clock=self.clock,
            entropy=self.entropy,
            node=self.config.node.name,
            version=arauto.__version__,
            endpoint=telemetry.otlp_endpoint,
            headers=telemetry.otlp_headers,
            sample_ratio=telemetry.trace_sample_ratio,
            spans_per_s_max=telemetry.trace_spans_per_s_max,
        )
        if tracing is not None:
            # Sends what is left, and blocks while it does.
            self._closers.append(lambda: asyncio.to_thread(tracing.shutdown))
        return tracing

    def _start_exporter(self) -> None:
        config = self.config
        export = config.journal.export
        if not export.enabled or not self.storage.url:
            return
        exporter = Exporter(
            self.storage,
            config.node.name,
            Path(config.storage.data_dir) / "segments",
            self.clock,
            ExportSettings(interval_s=export.interval_s, segment_rows_max=export.rows_max),
        )
        exporter.start()
        self.exporter = exporter
        self._closers.append(exporter.stop)

    def _gauges(self) -> Iterable[HubGauges]:
        return (
            HubGauges(
                hub.name,
                len(hub.channels),
                len(hub.sessions),
                hub.subscription_count,
                hub.holdings.live_history.used_bytes,
                hub.holdings.idempotency.used_bytes,
                hub.holdings.retained.used_bytes,
                hub.holdings.backlogs.used_bytes,
                hub.holdings.documents.used_bytes,
            )
            for hub in list(self.directory.hubs.values())
        )


def _http_limits(http: HttpConfig, body_bytes_max: int) -> HttpLimits:
    return HttpLimits(
        header_count_max=http.header_count_max,
        header_bytes_max=http.header_bytes_max,
        body_bytes_max=body_bytes_max,
        request_timeout_s=http.request_timeout_s,
    )


def _report(error: BaseException) -> None:
    _log.error("a background task failed", exc_info=error)


def _tls(cert_file: str, key_file: str) -> ssl.SSLContext | None:
    if not cert_file:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert_file, key_file or None)
    return context
