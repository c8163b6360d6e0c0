"""The quick publication writer writes what the general encoder writes, or nothing."""

from hypothesis import given
from hypothesis import strategies as st

from arauto.codec import arauto_pb2 as pb
from arauto.codec.events import Publication
from arauto.codec.proto import ProtoCodec
from arauto.codec.proto_publication import write_publication
from arauto.codec.websocket import BINARY, TEXT, binary_frame, frame, text_frame
from arauto.model import Message

_maybe = st.sampled_from(["", "x", "é" * 70])
messages = st.builds(
    Message,
    hub=st.just("h"),
    channel=st.text(min_size=1, max_size=90),
    payload=st.binary(max_size=300),
    epoch=st.integers(0, 2**63 - 1),
    offset=st.integers(0, 2**53 - 1) | st.integers(0, 20_000),
    ts_ms=st.integers(0, 2**53 - 1),
    content_type=_maybe,
    session=_maybe,
    user=_maybe,
    key=_maybe,
    retain=st.booleans(),
)
plain = st.builds(
    Message,
    hub=st.just("h"),
    channel=st.text(min_size=1, max_size=90),
    payload=st.binary(min_size=1, max_size=300),
    epoch=st.integers(1, 2**63 - 1),
    offset=st.integers(1, 2**53 - 1) | st.integers(1, 20_000),
    ts_ms=st.integers(1, 2**53 - 1),
    session=_maybe,
)


@given(messages | plain)
def test_both_ways_of_encoding_a_message_give_the_same_bytes(message: Message) -> None:
    codec = ProtoCodec()
    general = codec.encode_event(Publication(message=message))
    assert codec.encode_message(message) == general


@given(plain)
def test_a_plain_message_takes_the_quick_way(message: Message) -> None:
    quick = write_publication(message)
    assert quick is not None
    assert pb.Envelope.FromString(quick).event == 10


@given(st.integers(0, 70_000))
def test_the_frames_of_the_flavours_are_the_general_frames(size: int) -> None:
    payload = b"x" * size
    assert binary_frame(payload) == frame(payload, BINARY)
    assert text_frame(payload) == frame(payload, TEXT)
