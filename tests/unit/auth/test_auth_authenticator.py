"""Who checks which credentials, and what happens when nobody answers."""

import asyncio
from pathlib import Path
from typing import Any

import jwt as pyjwt
import pytest
import structlog

from arauto.entropy import SeededEntropy
from arauto.errors import ArautoError, Code
from arauto.limits import CREDENTIALS_BYTES_MAX
from arauto.model import Grant, Grants, Identity
from arauto.session.access import withdrawn
from arauto.session.auth.authenticator import Authenticator, check_auth_settings
from arauto.session.auth.breaker import FAILURES_MAX, OPEN_S, Breaker
from arauto.session.auth.jwt import JwtVerifier
from arauto.session.auth.outbound import OutboundError
from arauto.session.auth.provider import check_provider_settings
from arauto.session.auth.revocations import Revocations
from arauto.session.auth.tokens import SessionTokens
from arauto.settings import AuthProvider, HubSettings, JwtSettings
from arauto.testing.clock import FakeClock

SECRET = "hub-secret-of-forty-characters-0123456789"
JWT = JwtSettings(algorithm="HS256", secret=SECRET)
PROVIDER = AuthProvider(url="https://auth.example/")
OTHER_PROVIDER = AuthProvider(url="https://auth2.example/")

NOTHING = HubSettings()
WITH_JWT = HubSettings(jwt=JWT)
WITH_PROVIDER = HubSettings(auth_provider=PROVIDER)
WITH_BOTH = HubSettings(jwt=JWT, auth_provider=PROVIDER)


class ListProvider:
    """Lets in whoever is on its list; can be told to fail. The port's smallest implementation."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.asked: list[tuple[str, str, bytes, str]] = []
        self.failure: ArautoError | None = None
        self.open = asyncio.Event()
        self.open.set()

    async def authenticate(
        self, hub: str, session: str, credentials: bytes, address: str
    ) -> Identity:
        self.asked.append((hub, session, credentials, address))
        asked_ms = self.clock.wall_ms()
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        if credentials.startswith(b"bad"):
            raise ArautoError(Code.AUTH_FAILED, "refused")
        return Identity("from-provider", issued_ms=asked_ms)


class Kit:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.revocations = Revocations(self.clock)
        self.tokens = SessionTokens(
            secret="n" * 32,
            clock=self.clock,
            entropy=SeededEntropy(1),
            revocations=self.revocations,
        )
        self.provider = ListProvider(self.clock)
        self.built: list[AuthProvider] = []
        self.authenticator = Authenticator(
            clock=self.clock,
            tokens=self.tokens,
            jwt=JwtVerifier(clock=self.clock, revocations=self.revocations, fetch=self.fetch),
            revocations=self.revocations,
            make_provider=self.make_provider,
        )

    async def fetch(self, hub: str, url: str) -> bytes:
        raise AssertionError("no key set in these tests")

    def make_provider(self, settings: AuthProvider) -> ListProvider:
        self.built.append(settings)
        return self.provider

    def jwt(self, hub: str = "shop", secret: str = SECRET, **change: Any) -> bytes:
        now_s = self.clock.wall_ms() // 1_000
        claims = {"aud": hub, "sub": "from-jwt", "iat": now_s, "exp": now_s + 60, **change}
        return pyjwt.encode(claims, secret, "HS256").encode()

    def session_token(self, hub: str = "shop") -> bytes:
        identity = Identity("from-token", issued_ms=self.clock.wall_ms())
        return self.tokens.issue_session_token(hub, "s-0", identity)[0].encode()

    async def login(
        self, settings: HubSettings, credentials: bytes, hub: str = "shop", address: str = ""
    ) -> str:
        identity = await self.authenticator.authenticate(hub, settings, "s-1", credentials, address)
        return identity.user

    async def refused(self, settings: HubSettings, credentials: bytes, hub: str = "shop") -> Code:
        with pytest.raises(ArautoError) as caught:
            await self.login(settings, credentials, hub)
        return caught.value.code


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.mark.parametrize("settings", [NOTHING, WITH_JWT, WITH_PROVIDER, WITH_BOTH])
async def test_arautos_own_token_is_taken_in_its_hub_whatever_the_settings(
    kit: Kit, settings: HubSettings
) -> None:
    assert await kit.login(settings, kit.session_token()) == "from-token"
    assert await kit.refused(settings, kit.session_token("bank")) is Code.TOKEN_INVALID
    assert kit.provider.asked == [], (
        "what was refused as a session token is not tried as anything else"
    )


async def test_tokens_go_to_the_hubs_jwt_settings_and_other_credentials_to_its_provider(
    kit: Kit,
) -> None:
    assert await kit.login(WITH_BOTH, kit.jwt()) == "from-jwt"
    assert await kit.login(WITH_BOTH, b"user:password") == "from-provider"
    assert [asked[2] for asked in kit.provider.asked] == [b"user:password"]


async def test_a_token_that_the_jwt_settings_refuse_is_not_offered_to_the_provider(
    kit: Kit,
) -> None:
    wrong = [kit.jwt(secret="x" * 40), kit.jwt(hub="bank"), b"a.b.c", b"e30.e30.e30"]
    for token in wrong:
        assert await kit.refused(WITH_BOTH, token) is Code.TOKEN_INVALID
    assert await kit.refused(WITH_BOTH, kit.jwt(exp=1, iat=0.5)) is Code.TOKEN_EXPIRED
    assert kit.provider.asked == []


async def test_a_provider_alone_also_judges_what_looks_like_a_token(kit: Kit) -> None:
    for credentials in (kit.jwt(), b"a.b.c", b"e30.e30.e30", b"x" * 9_000 + b".a.b"):
        assert await kit.login(WITH_PROVIDER, credentials) == "from-provider"


async def test_with_jwt_alone_other_credentials_are_invalid_tokens(kit: Kit) -> None:
    assert await kit.refused(WITH_JWT, b"user:password") is Code.TOKEN_INVALID


async def test_where_nobody_can_be_asked_nobody_gets_in(kit: Kit) -> None:
    assert await kit.refused(NOTHING, b"user:password") is Code.AUTH_FAILED
    assert await kit.refused(NOTHING, kit.jwt()) is Code.AUTH_FAILED


def _table() -> dict[str, list[Code]]:
    """What the page says: kind of credentials → the answer for each way that hubs are set up."""
    page = Path(__file__).parents[3] / "docs" / "topics" / "authentication.md"
    part = page.read_text().partition("### Which number")[2].partition("\n##")[0]
    rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| ")][1:]
    return {
        what.strip(): [Code(int(cell.split(",")[0])) for cell in cells] for what, *cells in rows
    }


async def test_the_page_says_which_number_each_refusal_has(kit: Kit) -> None:
    table = _table()
    kit.provider.failure = ArautoError(Code.AUTH_FAILED, "the credentials were refused")
    own = kit.session_token()
    shown = {
        "Arauto's own token, changed, revoked or of another hub": (
            own[:-8] + b"AAAAAAAA",
            kit.session_token("bank"),
        ),
        "a signed token that is wrong, revoked or for another hub": (
            kit.jwt(secret="x" * 40),
            kit.jwt(hub="bank"),
        ),
        "a signed token that is too late": (kit.jwt(exp=1, iat=0.5),),
        "anything else": (b"user:password",),
    }
    settings = (WITH_JWT, WITH_BOTH, WITH_PROVIDER, NOTHING)
    for what, credentials in shown.items():
        found = [[await kit.refused(each, one) for each in settings] for one in credentials]
        assert found == [table[what]] * len(credentials), what
    kit.clock.advance(400)
    late = [await kit.refused(each, own) for each in settings]
    assert late == table["Arauto's own token, too late"]
    waiting = "nothing, but a request that was waiting when its user was revoked"
    assert table[waiting] == [withdrawn().code] * len(settings)


async def test_empty_and_oversized_credentials_are_named_as_such(kit: Kit) -> None:
    for credentials in (b"", b"x" * (CREDENTIALS_BYTES_MAX + 1)):
        assert await kit.refused(WITH_PROVIDER, credentials) is Code.BAD_FIELD
    assert kit.provider.asked == []
    assert await kit.login(WITH_PROVIDER, b"x" * CREDENTIALS_BYTES_MAX) == "from-provider"


async def test_the_provider_is_told_hub_session_and_address(kit: Kit) -> None:
    await kit.login(WITH_PROVIDER, b"\x00\xff", "bank", "192.0.2.7")
    assert kit.provider.asked == [("bank", "s-1", b"\x00\xff", "192.0.2.7")]


async def test_a_provider_is_built_once_per_state_of_a_hubs_settings(kit: Kit) -> None:
    for _ in range(3):
        await kit.login(WITH_PROVIDER, b"x")
    await kit.login(WITH_PROVIDER, b"x", "bank")
    assert kit.built == [PROVIDER, PROVIDER]
    await kit.login(HubSettings(auth_provider=OTHER_PROVIDER), b"x")
    assert kit.built == [PROVIDER, PROVIDER, OTHER_PROVIDER]
    kit.authenticator.forget("shop")
    await kit.login(HubSettings(auth_provider=OTHER_PROVIDER), b"x")
    assert len(kit.built) == 4


async def test_what_is_remembered_for_hubs_is_bounded_and_forgetting_costs_only_a_rebuild(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arauto.session.auth.authenticator._HUBS_LEN_MAX", 3)
    monkeypatch.setattr("arauto.session.auth.jwt._HUBS_LEN_MAX", 3)
    hubs = [f"hub-{n}" for n in range(5)]
    for hub in [*hubs, *hubs]:
        assert await kit.login(WITH_BOTH, b"x", hub) == "from-provider"
        assert await kit.login(WITH_BOTH, kit.jwt(hub), hub) == "from-jwt"
    assert len(kit.built) == 10


async def test_withdrawn_jwt_settings_count_from_the_next_login_on(kit: Kit) -> None:
    assert await kit.login(WITH_JWT, kit.jwt()) == "from-jwt"
    assert await kit.refused(NOTHING, kit.jwt()) is Code.AUTH_FAILED


async def test_after_several_silent_failures_the_provider_is_left_alone_for_a_while(
    kit: Kit,
) -> None:
    kit.provider.failure = OutboundError("timeout")
    for _ in range(FAILURES_MAX + 20):
        assert await kit.refused(WITH_PROVIDER, b"x") is Code.AUTH_UNAVAILABLE
    assert len(kit.provider.asked) == FAILURES_MAX
    kit.clock.advance(OPEN_S)
    kit.provider.failure = None
    assert await kit.login(WITH_PROVIDER, b"x") == "from-provider"
    assert await kit.login(WITH_PROVIDER, b"x") == "from-provider"


async def test_one_hubs_dead_provider_does_not_close_anothers(kit: Kit) -> None:
    kit.provider.failure = OutboundError("connect")
    for _ in range(FAILURES_MAX):
        await kit.refused(WITH_PROVIDER, b"x", "shop")
    kit.provider.failure = None
    assert await kit.login(WITH_PROVIDER, b"x", "bank") == "from-provider"
    assert await kit.refused(WITH_PROVIDER, b"x", "shop") is Code.AUTH_UNAVAILABLE


@pytest.mark.parametrize(
    "failure", [OutboundError("schema"), OutboundError("status"), OutboundError("too-large")]
)
async def test_a_stranger_who_upsets_the_provider_cannot_shut_others_out(
    kit: Kit, failure: OutboundError
) -> None:
    kit.provider.failure = failure
    for _ in range(FAILURES_MAX * 3):
        await kit.refused(WITH_PROVIDER, b"x")
    kit.provider.failure = None
    assert await kit.login(WITH_PROVIDER, b"good") == "from-provider"


async def test_refusals_do_not_open_the_breaker(kit: Kit) -> None:
    for _ in range(FAILURES_MAX * 3):
        assert await kit.refused(WITH_PROVIDER, b"bad") is Code.AUTH_FAILED
    assert await kit.login(WITH_PROVIDER, b"good") == "from-provider"


async def test_while_a_probe_is_under_way_others_are_refused_at_once(kit: Kit) -> None:
    kit.provider.failure = OutboundError("timeout")
    for _ in range(FAILURES_MAX):
        await kit.refused(WITH_PROVIDER, b"x")
    kit.provider.failure = None
    kit.clock.advance(OPEN_S)
    kit.provider.open.clear()
    probe = asyncio.ensure_future(kit.login(WITH_PROVIDER, b"x"))
    await asyncio.sleep(0)
    assert await kit.refused(WITH_PROVIDER, b"x") is Code.AUTH_UNAVAILABLE
    kit.provider.open.set()
    assert await probe == "from-provider"
    assert await kit.login(WITH_PROVIDER, b"x") == "from-provider"


async def test_a_probe_whose_client_goes_away_makes_room_for_the_next(kit: Kit) -> None:
    kit.provider.failure = OutboundError("timeout")
    for _ in range(FAILURES_MAX):
        await kit.refused(WITH_PROVIDER, b"x")
    kit.provider.failure = None
    kit.clock.advance(OPEN_S)
    kit.provider.open.clear()
    probe = asyncio.ensure_future(kit.login(WITH_PROVIDER, b"x"))
    await asyncio.sleep(0)
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    kit.provider.open.set()
    assert await kit.login(WITH_PROVIDER, b"x") == "from-provider"


async def test_being_turned_away_for_lack_of_room_says_nothing_about_the_provider(
    kit: Kit,
) -> None:
    kit.provider.failure = ArautoError(Code.TOO_MANY_PENDING, "full")
    for _ in range(FAILURES_MAX * 2):
        assert await kit.refused(WITH_PROVIDER, b"x") is Code.TOO_MANY_PENDING
    assert len(kit.provider.asked) == FAILURES_MAX * 2


def test_a_breaker_whose_probe_fails_opens_again() -> None:
    breaker = Breaker()
    for _ in range(FAILURES_MAX):
        assert breaker.admits(0)
        breaker.failed(0)
    assert not breaker.admits(OPEN_S - 0.001)
    assert breaker.admits(OPEN_S)
    breaker.failed(OPEN_S)
    assert not breaker.admits(2 * OPEN_S - 0.001)
    assert breaker.admits(2 * OPEN_S)


async def test_a_user_revoked_while_the_provider_is_being_asked_is_not_let_in(kit: Kit) -> None:
    kit.provider.open.clear()
    login = asyncio.ensure_future(kit.refused(WITH_PROVIDER, b"x"))
    await asyncio.sleep(0)
    kit.clock.advance(0.1)
    kit.revocations.revoke_user("shop", "from-provider")
    kit.clock.advance(0.1)
    kit.provider.open.set()
    assert await login is Code.AUTH_FAILED
    assert await kit.login(WITH_PROVIDER, b"x") == "from-provider"


async def test_revocations_are_seen_through_the_authenticator(kit: Kit) -> None:
    identity = await kit.authenticator.authenticate("shop", WITH_PROVIDER, "s-1", b"x")
    assert not kit.authenticator.is_revoked("shop", identity)
    kit.clock.advance(1)
    kit.revocations.revoke_user("shop", "from-provider")
    assert kit.authenticator.is_revoked("shop", identity)
    assert not kit.authenticator.is_revoked("bank", identity)


def test_an_identity_too_large_for_a_token_gets_none(kit: Kit) -> None:
    many = Grants(channels=tuple(Grant(f"channel-{n:05}", True, True) for n in range(1_000)))
    with structlog.testing.capture_logs() as logs:
        assert kit.authenticator.issue_token("shop", "s-1", Identity("a", many)) == ("", 0)
    assert [line["event"] for line in logs] == ["no session token"]
    token, expires_ms = kit.authenticator.issue_token("shop", "s-1", Identity("a"))
    assert token
    assert expires_ms == kit.clock.wall_ms() + 300_000


async def test_neither_errors_nor_logs_hold_what_the_client_sent(kit: Kit) -> None:
    """T24."""
    planted = "planted-credential"
    sent = [
        (WITH_BOTH, kit.jwt(secret="x" * 40, sub=planted)),
        (WITH_BOTH, planted.encode() + b".a.b"),
        (WITH_JWT, planted.encode()),
        (NOTHING, planted.encode()),
        (WITH_PROVIDER, b"bad" + planted.encode()),
    ]
    with structlog.testing.capture_logs() as logs:
        for settings, credentials in sent:
            with pytest.raises(ArautoError) as caught:
                await kit.login(settings, credentials)
            text = repr(caught.value) + str(caught.value) + repr(caught.value.__cause__)
            assert planted not in text
            assert credentials.decode() not in text
    assert planted not in str(logs)
    assert SECRET not in str(logs)
    assert {line["event"] for line in logs} == {"token refused"}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (AuthProvider(), "authProvider.url"),
        (AuthProvider(url="ftp://x/"), "authProvider.url"),
        (AuthProvider(url="http://user:secret-value@x/"), "authProvider.url"),
        (AuthProvider(url="http://x/", headers={"Host": "y"}), "authProvider.headers"),
        (AuthProvider(url="http://x/", headers={"host": "y"}), "authProvider.headers"),
        (AuthProvider(url="http://x/", headers={"Content-Length": "1"}), "authProvider.headers"),
        (AuthProvider(url="http://x/", headers={"Transfer-Encoding": "x"}), "authProvider.headers"),
        (AuthProvider(url="http://x/", headers={"": "y"}), "authProvider.headers"),
        (AuthProvider(url="http://x/", headers={"a b": "y"}), "authProvider.headers"),
        (AuthProvider(url="http://x/", headers={"a:": "y"}), "authProvider.headers"),
        (
            AuthProvider(url="http://x/", headers={"a": "secret-value\r\nb: c"}),
            "authProvider.headers",
        ),
        (
            AuthProvider(url="http://x/", headers={"a": "secret-value\u00fc"}),
            "authProvider.headers",
        ),
        (AuthProvider(url="http://x/", headers={"a": " secret-value"}), "authProvider.headers"),
        (AuthProvider(url="http://x/", headers={"a": "x" * 5_000}), "authProvider.headers"),
        (
            AuthProvider(url="http://x/", headers={f"h{n}": "" for n in range(33)}),
            "authProvider.headers",
        ),
    ],
)
def test_unusable_provider_settings_are_refused_without_repeating_them(
    settings: AuthProvider, field: str
) -> None:
    with pytest.raises(ArautoError) as caught:
        check_auth_settings(HubSettings(auth_provider=settings))
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, field)
    assert "secret-value" not in str(caught.value)


def test_ordinary_provider_settings_are_taken() -> None:
    settings = AuthProvider(
        url="https://auth.example:8443/check?v=1", headers={"Authorization": "Bearer abc", "x": ""}
    )
    assert check_provider_settings(settings) is settings
    assert check_auth_settings(WITH_BOTH) is WITH_BOTH
    with pytest.raises(ArautoError):
        check_auth_settings(HubSettings(jwt=JwtSettings()))
