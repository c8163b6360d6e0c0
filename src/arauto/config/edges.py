"""Configuration of the node's edges: the client port and the admin port."""

from typing import Annotated

import msgspec

from arauto.config.base import (
    RESERVED,
    Bytes,
    Count,
    FilePath,
    Interval,
    MemoryBytes,
    Port,
    PositiveCount,
    Section,
)
from arauto.limits import FRAGMENTS_LEN_MAX

__all__ = [
    "AdminConfig",
    "ConnectionConfig",
    "HttpConfig",
    "SseConfig",
    "TlsConfig",
    "WsConfig",
]


class WsConfig(Section, frozen=True):
    """WebSocket, at `/v1/ws`."""

    send_buffer_bytes: Bytes = 1_048_576
    """What may wait for one slow client before its channels' slow-consumer policy applies. The worst
    case in memory is this times the number of connections."""
    max_message_bytes: Bytes = 1_048_576
    """The largest message accepted from a client, all fragments together. Hubs have a lower limit of
    their own per publication; this one also bounds batches."""
    max_fragments: Annotated[int, msgspec.Meta(ge=1, le=FRAGMENTS_LEN_MAX)] = FRAGMENTS_LEN_MAX
    """The most fragments one message may come in."""
    read_buffer_bytes: Bytes = 2_048
    """Read buffer of each connection. Larger reads big messages in fewer steps; smaller saves memory
    when most connections are idle."""
    read_buffers_bytes_max: MemoryBytes = 268_435_456
    """What all read buffers may have grown beyond that for large messages, together with the fragments of
    messages that are not whole; 0 = no limit, else at least three times `maxMessageBytes`. At the bound the
    hub that holds most gives room: buffers in which nothing waits become small again, then the connection
    ends that is at a message for longest."""


class SseConfig(Section, frozen=True):
    """Server-sent events, at `/v1/sse`."""

    send_buffer_bytes: Bytes = 1_048_576
    """What may wait for one slow client before its channels' slow-consumer policy applies."""
    keep_alive_s: Interval = 15
    """How often a comment line is sent on a silent stream, so that proxies keep it open."""
    channels_max: PositiveCount = 100
    """Channels one URL may name."""


class HttpConfig(Section, frozen=True):
    """Plain HTTP requests on the client port, and the request that opens a WebSocket or a stream."""

    header_count_max: PositiveCount = 100
    """Headers in one request."""
    header_bytes_max: Bytes = 16_384
    """Size of the request line and all headers of one request."""
    body_bytes_max: Bytes = 1_048_576
    """Size of one request's body."""
    request_timeout_s: Interval = 10
    """How long a client may take to send one whole request, and before that for its TLS handshake. Stops
    clients that send a byte at a time."""
    keep_alive_timeout_s: Interval = 5
    """How long an idle HTTP connection waits for its next request."""


class TlsConfig(Section, frozen=True):
    """TLS on the client port; off while both files are empty. A proxy in front can do this instead."""

    cert_file: FilePath = ""
    """PEM file with the certificate and its chain."""
    key_file: FilePath = ""
    """PEM file with the private key, not encrypted."""


class ConnectionConfig(Section, frozen=True):
    """The client port: WebSocket, server-sent events and HTTP."""

    host: str = "127.0.0.1"
    """Address to listen on; `0.0.0.0` or `::` opens the port to the network."""
    port: Port = 8080
    """Port to listen on; 0 = any free one."""
    allowed_origins: tuple[str, ...] = ()
    """Web origins, as `https://shop.example` (with the port if it is not the usual one), whose pages may
    connect. Empty = only pages of the node's own address. `"*"` lets any web page connect, under any name."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names, as `live.example.com`, by which clients reach this port, beside its address. Pages served
    under them may connect. While `host` is loopback, or this is not empty, requests for other names are
    refused, which keeps out web pages whose name was made to lead here; addresses, `localhost` and the names
    in `allowedOrigins` are always taken. A proxy in front that passes the host on needs its name here."""
    max_connections: Count = 50_000
    """Connections the node admits at once; 0 = no limit. Further ones are refused until some leave."""
    connections_per_ip_max: Count = 0
    """Connections from one address; 0 = no limit. Leave it at 0 behind a proxy, where all come from one
    address."""
    ws: WsConfig = WsConfig()
    sse: SseConfig = SseConfig()
    http: HttpConfig = HttpConfig()
    tls: TlsConfig = TlsConfig()


class AdminConfig(Section, frozen=True):
    """The admin port: admin API, `/metrics` and `/healthz`."""

    host: str = "127.0.0.1"
    """Address to listen on. The admin port speaks plain HTTP: put a TLS proxy in front before opening
    it to a network."""
    port: Port = 4040
    """Port to listen on; 0 = any free one."""
    token: str = ""
    """Bearer token of the admin API. Empty = a random one is made at start and shown on the console
    (development only)."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names that requests may use for this port, beside its address. While `host` is loopback,
    or this is not empty, others are refused, which keeps out web pages whose name was made to lead here; a
    proxy in front that passes the host on needs its name here."""
    body_bytes_max: Bytes = 4_194_304
    """Size of one admin request's body."""
    url: Annotated[str, RESERVED] = ""
    """Reserved for the full admin API; ignored today. Service that checks administrators' credentials."""
