"""The fuzz targets' laws, with Hypothesis instead of a fuzzer, and on the fuzzer's own seeds."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec
from fuzz import codec_laws
from tests.unit.codec.strategies import events, requests

LAWS: dict[str, Callable[[bytes], None]] = {
    "proto": codec_laws.check_proto,
    "json": codec_laws.check_json,
    "sse": codec_laws.check_sse,
    "websocket": codec_laws.check_websocket,
    "names": codec_laws.check_names,
}
SEEDS = Path(codec_laws.__file__).parent / "corpus"

_PROTO, _JSON = ProtoCodec(), JsonCodec()
wires = st.one_of(
    requests.map(_PROTO.encode_request),
    events.map(_PROTO.encode_event),
    requests.map(_JSON.encode_request),
    events.map(_JSON.encode_event),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A message that was right, with a few bytes changed, lost or doubled."""
    data = bytearray(draw(wires))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        end = draw(st.integers(at, min(len(data), at + 4)))
        data[at:end] = draw(st.binary(max_size=4) | st.just(bytes(data[at:end] * 2)))
    return bytes(data)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Frames as the WebSocket law reads them, mostly well formed."""
    out = b""
    for _ in range(draw(st.integers(1, 8))):
        head = draw(st.sampled_from([0x00, 0x01, 0x02, 0x80, 0x81, 0x82, 0x88, 0x89, 0x8A, 0xC1]))
        payload = draw(st.binary(max_size=20) | st.text(max_size=6).map(_utf8))
        out += bytes((head, len(payload))) + payload
    return out


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")


name_pairs = st.tuples(
    st.text(alphabet="ab:/*#é", max_size=8), st.text(alphabet="ab:/é", max_size=8)
).map(lambda pair: "\n".join(pair).encode())


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@given(data=st.one_of(st.binary(max_size=80), damaged()))
def test_the_law_holds_for_any_bytes(law: Callable[[bytes], None], data: bytes) -> None:
    law(data)


@given(data=frames())
def test_the_law_of_fragments_holds_for_likely_frames(data: bytes) -> None:
    codec_laws.check_websocket(data)


@given(data=name_pairs)
def test_the_law_of_names_holds_for_likely_names(data: bytes) -> None:
    codec_laws.check_names(data)


@pytest.mark.parametrize("name", LAWS)
def test_the_law_holds_for_the_seeds(name: str) -> None:
    seeds = sorted((SEEDS / name).iterdir())
    assert len(seeds) >= 5
    for seed in seeds:
        LAWS[name](seed.read_bytes())


def test_an_input_that_takes_too_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 1.5])
    monkeypatch.setattr("time.process_time", lambda: next(ticks))
    with pytest.raises(AssertionError, match=r"took 1\.5 s"):
        codec_laws.within_a_second(lambda data: None)(b"")
