"""Key sets: when they are read, who waits for whom, and that hubs share nothing (T2, CVE-2026-49998)."""

import asyncio
import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt as pyjwt
import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from arauto.errors import ArautoError, Code
from arauto.session.auth.jwks import RETRY_S, STALE_MAX_S, read_key_file
from arauto.session.auth.jwt import JwtVerifier
from arauto.session.auth.revocations import Revocations
from arauto.settings import JwtSettings
from arauto.testing.clock import FakeClock

URL = "https://id.example/jwks.json"
SETTINGS = JwtSettings(jwks_url=URL)
ONE, TWO = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()


def jwks(**keys: Ed25519PrivateKey) -> bytes:
    entries = [
        {
            "kty": "OKP",
            "crv": "Ed25519",
            "kid": kid,
            "x": base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).decode().rstrip("="),
        }
        for kid, key in keys.items()
    ]
    return json.dumps({"keys": entries}).encode()


class Issuer:
    """Stands for the network: answers what it is told to, counts, and can be held back."""

    def __init__(self, **keys: Ed25519PrivateKey) -> None:
        self.answer: bytes | Exception = jwks(**keys)
        self.by_hub: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.clock = FakeClock()
        self.verifier = JwtVerifier(
            clock=self.clock, revocations=Revocations(self.clock), fetch=self.fetch
        )

    async def fetch(self, hub: str, url: str) -> bytes:
        self.asked.append((hub, url))
        await self.open.wait()
        answer = self.by_hub.get(hub, self.answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def token(self, key: Ed25519PrivateKey, kid: str | None = "a", hub: str = "shop") -> bytes:
        now_s = self.clock.wall_ms() // 1_000
        claims: dict[str, Any] = {"aud": hub, "sub": "alice", "iat": now_s, "exp": now_s + 600}
        headers = {} if kid is None else {"kid": kid}
        return pyjwt.encode(claims, key, "EdDSA", headers=headers).encode()

    async def login(
        self,
        key: Ed25519PrivateKey,
        kid: str | None = "a",
        hub: str = "shop",
        settings: JwtSettings = SETTINGS,
    ) -> str:
        verified = await self.verifier.verify(hub, settings, self.token(key, kid, hub))
        return verified.identity.user

    async def refused(self, *args: Any, **named: Any) -> Code:
        with pytest.raises(ArautoError) as caught:
            await self.login(*args, **named)
        return caught.value.code


def unavailable() -> ArautoError:
    return ArautoError(Code.AUTH_UNAVAILABLE, "down")


async def test_a_set_is_read_once_and_used_until_it_is_old() -> None:
    issuer = Issuer(a=ONE)
    for _ in range(5):
        assert await issuer.login(ONE) == "alice"
        issuer.clock.advance(59)
    assert issuer.asked == [("shop", URL)]
    issuer.clock.advance(6)
    await issuer.login(ONE)
    assert len(issuer.asked) == 2


async def test_the_same_kid_in_two_hubs_means_two_keys() -> None:
    """CVE-2026-49998: cached by `kid` alone, one tenant's key opened the other's hub."""
    for first, second in (("shop", "bank"), ("bank", "shop")):
        issuer = Issuer()
        issuer.by_hub = {"shop": jwks(a=ONE), "bank": jwks(a=TWO)}
        keys = {"shop": ONE, "bank": TWO}
        for hub in (first, second):
            assert await issuer.login(keys[hub], hub=hub) == "alice"
        for hub, other in ((first, second), (second, first)):
            assert await issuer.refused(keys[other], hub=hub) is Code.TOKEN_INVALID
        assert sorted(issuer.asked) == [("bank", URL), ("shop", URL)]


async def test_one_hub_changing_its_settings_does_not_touch_anothers_keys() -> None:
    issuer = Issuer(a=ONE)
    await issuer.login(ONE, hub="shop")
    await issuer.login(ONE, hub="bank")
    changed = JwtSettings(jwks_url="https://other.example/jwks.json")
    issuer.answer = jwks(a=TWO)
    assert await issuer.refused(ONE, hub="shop", settings=changed) is Code.TOKEN_INVALID
    assert await issuer.login(TWO, hub="shop", settings=changed) == "alice"
    assert await issuer.login(ONE, hub="bank") == "alice"
    assert len(issuer.asked) == 3


async def test_many_logins_at_once_cause_one_reading() -> None:
    issuer = Issuer(a=ONE)
    issuer.open.clear()
    logins = [asyncio.ensure_future(issuer.login(ONE)) for _ in range(50)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    issuer.open.set()
    assert await asyncio.gather(*logins) == ["alice"] * 50
    assert len(issuer.asked) == 1


async def test_a_login_that_is_cancelled_does_not_take_the_others_reading_away() -> None:
    issuer = Issuer(a=ONE)
    issuer.open.clear()
    first, second = (asyncio.ensure_future(issuer.login(ONE)) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    issuer.open.set()
    assert await second == "alice"
    assert first.cancelled()
    assert len(issuer.asked) == 1


async def test_a_new_key_is_found_at_its_first_use() -> None:
    issuer = Issuer(a=ONE)
    await issuer.login(ONE)
    issuer.answer = jwks(a=ONE, b=TWO)
    issuer.clock.advance(RETRY_S)
    assert await issuer.login(TWO, "b") == "alice"
    assert len(issuer.asked) == 2


async def test_a_flood_of_unknown_kids_causes_one_reading_per_interval() -> None:
    issuer = Issuer(a=ONE)
    await issuer.login(ONE)
    for n in range(200):
        assert await issuer.refused(TWO, f"random-{n}") is Code.TOKEN_INVALID
    assert len(issuer.asked) == 1
    issuer.clock.advance(RETRY_S)
    for n in range(200):
        await issuer.refused(TWO, f"more-{n}")
    assert len(issuer.asked) == 2


@pytest.mark.parametrize(
    "kid",
    [
        "../../etc/passwd",
        "/dev/null",
        "a' OR '1'='1",
        "a\0",
        "A",
        " a",
        "a ",
        "http://x/",
        "__proto__",
    ],
)
async def test_a_kid_is_a_name_and_nothing_else(kid: str) -> None:
    issuer = Issuer(a=ONE)
    assert await issuer.refused(ONE, kid) is Code.TOKEN_INVALID
    assert {url for _, url in issuer.asked} == {URL}


async def test_a_hopeless_algorithm_does_not_even_cause_a_reading() -> None:
    issuer = Issuer(a=ONE)
    token = pyjwt.encode({"sub": "alice"}, "k" * 64, "HS512", headers={"kid": "x"}).encode()
    with pytest.raises(ArautoError) as caught:
        await issuer.verifier.verify("shop", SETTINGS, token)
    assert caught.value.code is Code.TOKEN_INVALID
    assert issuer.asked == []


async def test_a_token_without_kid_is_taken_only_where_there_is_one_key() -> None:
    issuer = Issuer(a=ONE)
    assert await issuer.login(ONE, None) == "alice"
    issuer = Issuer(a=ONE, b=TWO)
    assert await issuer.refused(ONE, None) is Code.TOKEN_INVALID


async def test_a_withdrawn_key_stops_working_after_the_next_reading() -> None:
    issuer = Issuer(a=ONE)
    await issuer.login(ONE)
    issuer.answer = jwks(b=TWO)
    issuer.clock.advance(300)
    assert await issuer.refused(ONE) is Code.TOKEN_INVALID


@pytest.mark.parametrize(
    "failure",
    [unavailable(), OSError("reset"), b"<html>", b'{"keys":[]}'],
    ids=lambda f: repr(f)[:20],
)
async def test_old_keys_stay_in_use_while_reading_fails_but_not_for_ever(
    failure: bytes | Exception,
) -> None:
    issuer = Issuer(a=ONE)
    await issuer.login(ONE)
    issuer.answer = failure
    issuer.clock.advance(600)
    assert await issuer.login(ONE) == "alice"
    asked = len(issuer.asked)
    assert await issuer.login(ONE) == "alice"
    assert len(issuer.asked) == asked, "a failing issuer is not asked at every login"
    issuer.clock.advance(STALE_MAX_S)
    assert await issuer.refused(ONE) is Code.AUTH_UNAVAILABLE
    issuer.answer = jwks(a=ONE)
    issuer.clock.advance(RETRY_S)
    assert await issuer.login(ONE) == "alice"


async def test_without_keys_nobody_gets_in_and_the_issuer_is_left_in_peace() -> None:
    issuer = Issuer()
    issuer.answer = unavailable()
    for _ in range(10):
        assert await issuer.refused(ONE) is Code.AUTH_UNAVAILABLE
    assert len(issuer.asked) == 1
    issuer.answer = jwks(a=ONE)
    issuer.clock.advance(RETRY_S)
    assert await issuer.login(ONE) == "alice"


async def test_closing_while_a_set_is_being_read_ends_the_wait() -> None:
    issuer = Issuer(a=ONE)
    issuer.open.clear()
    login = asyncio.ensure_future(issuer.refused(ONE))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    issuer.verifier.close()
    assert await login is Code.AUTH_UNAVAILABLE


async def test_a_failed_reading_is_logged_without_url_or_answer() -> None:
    issuer = Issuer()
    issuer.answer = b'{"keys":"planted-secret"}'
    with structlog.testing.capture_logs() as logs:
        await issuer.refused(ONE)
    assert [line["event"] for line in logs] == ["jwks read failed"]
    assert logs[0]["hub"] == "shop"
    assert "planted-secret" not in str(logs)
    assert "id.example" not in str(logs)


async def test_a_set_in_a_file_is_read_again_when_it_is_old(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_bytes(jwks(a=ONE))
    settings = JwtSettings(jwks_file=str(file))
    issuer = Issuer()
    assert await issuer.login(ONE, settings=settings) == "alice"
    file.write_bytes(jwks(a=TWO))
    assert await issuer.login(ONE, settings=settings) == "alice"
    issuer.clock.advance(300)
    assert await issuer.refused(ONE, settings=settings) is Code.TOKEN_INVALID
    assert await issuer.login(TWO, settings=settings) == "alice"
    assert issuer.asked == []


def _missing(path: Path) -> None:
    pass


def _directory(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _large(path: Path) -> None:
    path.write_bytes(b" " * 70_000)


@pytest.mark.parametrize("make", [_missing, _directory, _pipe, _large])
async def test_what_is_no_small_regular_file_is_not_read(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "keys")
    with pytest.raises(OSError, match=r"."):
        await read_key_file(str(tmp_path / "keys"))
    settings = JwtSettings(jwks_file=str(tmp_path / "keys"))
    assert await Issuer().refused(ONE, settings=settings) is Code.AUTH_UNAVAILABLE


async def test_a_device_or_an_impossible_path_is_not_read() -> None:
    for path in ("/dev/zero", "a\0b"):
        code = await Issuer().refused(ONE, settings=JwtSettings(jwks_file=path))
        assert code is Code.AUTH_UNAVAILABLE
