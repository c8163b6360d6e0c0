"""Secrets go in and do not come out."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.admin.operations.secrets import MASK, masked, unmasked, version_of
from arauto.errors import ArautoError
from arauto.settings import AuthProvider, HubSettings, JwtSettings, Quotas

_secrets = st.text(min_size=1, max_size=20).filter(lambda text: text != MASK)
_providers = st.none() | st.builds(
    AuthProvider,
    url=st.sampled_from(["https://a.example", "https://b.example"]),
    headers=st.dictionaries(st.text(max_size=5), _secrets, max_size=4),
)
_jwts = st.none() | st.builds(
    JwtSettings, secret=st.just("") | _secrets, issuer=st.text(max_size=3)
)
_hubs = st.builds(
    HubSettings,
    auth_provider=_providers,
    jwt=_jwts,
    quotas=st.builds(Quotas, sessions_max=st.integers(0, 9)),
)


def secrets_of(settings: HubSettings) -> list[str]:
    provider, jwt = settings.auth_provider, settings.jwt
    found = list(provider.headers.values()) if provider is not None else []
    return [*found, *([jwt.secret] if jwt is not None and jwt.secret else [])]


@given(_hubs)
def test_what_is_shown_holds_only_masks(settings: HubSettings) -> None:
    assert set(secrets_of(masked(settings))) <= {MASK}


@given(_hubs)
def test_what_is_shown_and_sent_back_changes_nothing(settings: HubSettings) -> None:
    assert unmasked(masked(settings), settings) == settings


@given(_hubs, _hubs)
def test_settings_without_masks_are_taken_as_they_are(
    settings: HubSettings, current: HubSettings
) -> None:
    assert unmasked(settings, current) == settings


@given(_hubs)
def test_masks_keep_nothing_where_there_is_nothing(settings: HubSettings) -> None:
    shown = masked(settings)
    if shown == settings:
        assert unmasked(shown, None) == settings
    else:
        with pytest.raises(ArautoError):
            unmasked(shown, None)


def test_a_secret_moves_to_no_other_header() -> None:
    current = HubSettings(auth_provider=AuthProvider(url="https://a", headers={"A": "secret"}))
    other = HubSettings(auth_provider=AuthProvider(url="https://a", headers={"B": MASK}))
    with pytest.raises(ArautoError, match="keeps a stored secret"):
        unmasked(other, current)


@given(_hubs, _secrets)
def test_versions_say_nothing_about_secrets(settings: HubSettings, other: str) -> None:
    changed = settings
    if settings.jwt is not None and settings.jwt.secret:
        jwt = msgspec.structs.replace(settings.jwt, secret=other)
        changed = msgspec.structs.replace(settings, jwt=jwt)
    assert version_of(changed) == version_of(settings)


@given(_hubs, _hubs)
def test_versions_differ_where_what_is_shown_differs(one: HubSettings, two: HubSettings) -> None:
    assert (version_of(one) == version_of(two)) == (masked(one) == masked(two))
