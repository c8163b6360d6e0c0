"""What must stay secret appears in no log line, no error and no answer (T24)."""

import asyncio
import io
import logging
from collections.abc import Iterator

import httpx
import pytest
import structlog

from arauto.codec.events import (
    AuthReply,
    AuthRequest,
    ErrorEvent,
    PublishItem,
    PublishRequest,
    RestoreRequest,
)
from arauto.session import commands
from arauto.settings import AuthProvider, HubSettings, JwtSettings
from arauto.telemetry.log import configure_logging
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.security.raw import frame, opened, upgraded
from tests.integration.session.talk import publish, subscribed
from tests.integration.wire import Wire, connect

QUERY_TOKEN = "planted-query-token-1a2b3c"
HEADER_TOKEN = "planted-header-token-4d5e6f"
CREDENTIALS = "planted-credentials-7a8b9c"
RESTORE_KEY = "planted-restore-key-0d1e2f"
PAYLOAD = "planted-payload-3a4b5c"
PROVIDER_KEY = "planted-provider-key-6d7e8f"
HUB_SECRET = "planted-hub-secret-9a0b1c-of-forty-characters"
SECRETS = [QUERY_TOKEN, HEADER_TOKEN, CREDENTIALS, RESTORE_KEY, PAYLOAD, PROVIDER_KEY, HUB_SECRET]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything that is logged, as it would be written, at the most talkative level."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging(level="debug", stream=stream)
    # Else the loggers used here would keep this set-up for the tests that follow.
    structlog.configure(cache_logger_on_first_use=False)
    yield stream
    structlog.reset_defaults()
    root.handlers[:] = before[0]
    root.setLevel(before[1])


@pytest.fixture
async def talkative(start_node: StartNode, log: io.StringIO) -> RunningNode:
    node = await start_node(debug={"level": "debug"})
    await node.set(
        "hub",
        "shop",
        "",
        HubSettings(
            default_public=True,
            auth_provider=AuthProvider(
                url="http://127.0.0.1:9/auth", headers={"X-Key": PROVIDER_KEY}, timeout_s=2
            ),
            jwt=JwtSettings(algorithm="HS256", secret=HUB_SECRET),
        ),
    )
    return node


def assert_nothing_planted(*texts: str) -> None:
    for text in texts:
        assert not [secret for secret in SECRETS if secret in text], text


async def errors_of(wire: Wire) -> list[str]:
    found = []
    while not wire.closed.is_set() or wire.events:
        try:
            event = await asyncio.wait_for(wire.next(object), 1)
        except (TimeoutError, ConnectionError):
            break
        if isinstance(event, ErrorEvent | AuthReply):
            found.append(repr(event))
    return found


async def test_secrets_in_the_connection_request_are_neither_logged_nor_repeated(
    talkative: RunningNode, log: io.StringIO
) -> None:
    wire = await connect(talkative.url, token=QUERY_TOKEN)
    seen = await errors_of(wire)
    assert seen, "the token is refused, with an error"
    async with httpx.AsyncClient() as client:
        headers = {"Authorization": f"Bearer {HEADER_TOKEN}"}
        stream = await client.get(
            f"{talkative.http_url}/v1/sse?hub=shop&channel=a&token={QUERY_TOKEN}", headers=headers
        )
        post = await client.post(
            f"{talkative.http_url}/v1/publish?hub=shop",
            headers=headers,
            json={"messages": [{"channel": "a", "text": PAYLOAD}]},
        )
        odd = await client.get(f"{talkative.http_url}/nowhere?token={QUERY_TOKEN}", headers=headers)
    for answer in (stream, post, odd):
        assert answer.status_code >= 400
    async with opened(talkative) as raw:
        await raw.send(
            f"GET /{QUERY_TOKEN} HTTP/9.9\r\nAuthorization: {HEADER_TOKEN}\r\n\r\n".encode()
        )
        malformed = await raw.until_closed()
    texts = [stream.text, post.text, odd.text, malformed.decode("latin-1"), *seen]
    assert_nothing_planted(log.getvalue(), *texts)


async def test_secrets_in_requests_are_neither_logged_nor_repeated(
    talkative: RunningNode, log: io.StringIO
) -> None:
    wire = await connect(talkative.url)
    wire.send(AuthRequest(id=1, credentials=CREDENTIALS.encode()))
    wire.send(RestoreRequest(id=2, key=RESTORE_KEY))
    await subscribed(wire, "a")
    wire.send(publish("a", PAYLOAD.encode(), id=3, headers={"authorization": HEADER_TOKEN}))
    wire.send(publish("bad name", PAYLOAD.encode(), id=4))
    item = PublishItem(channel="a", payload=PAYLOAD.encode(), content_type="x" * 100)
    wire.send(PublishRequest(id=5, items=(item,)))
    wire.send_raw(b"\x08\x0a\x12" + PAYLOAD.encode())
    seen = await errors_of(wire)
    assert len(seen) >= 3
    assert_nothing_planted(log.getvalue(), *seen)
    async with upgraded(talkative, "arauto.v1.json") as raw:
        bad = f'{{"event":"auth","id":1,"credentials":"{CREDENTIALS}","x":"{RESTORE_KEY}"}}'
        await raw.send(frame(bad.encode(), 0x1))
        _, answer = await raw.frame()
    assert_nothing_planted(log.getvalue(), answer.decode())


async def test_a_mistake_of_ours_is_logged_without_what_the_client_sent(
    talkative: RunningNode, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tracebacks show code, not the values it worked on."""

    def broken(session: object, request: AuthRequest) -> None:
        credentials = request.credentials
        raise RuntimeError(f"cannot check {len(credentials)} bytes")

    monkeypatch.setitem(commands.HANDLERS, AuthRequest, broken)
    wire = await connect(talkative.url)
    wire.send(AuthRequest(id=1, credentials=CREDENTIALS.encode()))
    seen = await errors_of(wire)
    assert wire.close_code == 4004
    assert "cannot check" in log.getvalue(), "it is logged"
    assert not [text for text in seen if "cannot check" in text], "and not told to the client"
    assert_nothing_planted(log.getvalue(), *seen)
