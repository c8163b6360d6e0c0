/*
 * The load generator behind `arauto bench`: one thread, one epoll, no dependencies.
 *
 * It speaks five protocols (Arauto's WebSocket flavours, NATS, Redis, MQTT) with the same loop around them, so
 * that what differs between two figures is the server. Deliveries are counted as WHOLE FRAMES, per subscriber, by
 * walking frame headers: ids grow while a run lasts, so dividing bytes by a frame size would mislead.
 *
 * What it reads is kept contiguous: an unfinished frame at the end of a read is put aside (`carry`) and put in
 * front of the next read. Parsers therefore see whole frames only, and say how many bytes they used.
 *
 * Result: one JSON object on stdout. Anything unexpected from the server (an error event, a lost connection, no
 * progress) ends the run with a message on stderr and exit code 1: a figure is either right or absent.
 *
 * Python twin, for machines without a compiler: fallback.py beside this file (same options, same output).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES (256u << 10)
#define FRAME_BYTES_MAX (16u << 20)
#define OUT_BYTES_MAX (1u << 20)    /* stop encoding publications while this much waits to be sent */
#define CONNECTING_MAX 128          /* handshakes under way at once: stays below any listen backlog */
#define SOCKETS_PER_ADDRESS 20000   /* then the next 127.0.0.x, since one address has ~28k ephemeral ports */
#define PIDS_MAX 64
#define NS 1000000000ull
#define STAMP "@ts:"                /* starts every payload; 16 hex digits follow */
#define STAMP_LEN 20

enum proto { ARAUTO_PROTO, ARAUTO_JSON, NATS, REDIS, MQTT };
enum mode { FANOUT, SPREAD, LATENCY, IDLE, STORED };
enum role { PUBLISHER, SUBSCRIBER, STALLED };
enum state { OPENING, SUBSCRIBING, READY };

static const char *const PROTO_NAMES[] = {"arauto-proto", "arauto-json", "nats", "redis", "mqtt", NULL};
static const char *const MODE_NAMES[] = {"fanout", "spread", "latency", "idle", "stored", NULL};

/* ---- Arauto's wire numbers (proto/arauto.proto) --------------------------------------------------------- */

enum { EV_PING = 1, EV_PONG = 2, EV_SESSION_INFO = 4, EV_SUBSCRIBE = 8, EV_PUBLISH = 10, EV_ACK = 11, EV_ERROR = 27, EV_GAP = 28 };
enum { ENVELOPE_EVENT = 1, ENVELOPE_PAYLOAD = 2 };
enum { REQUEST_ID = 1, REQUEST_ITEMS = 2 };                 /* SubscribeRequest, PublishRequest, Ping, Ack, SubscribeReply */
enum { ITEM_CHANNEL = 1, ITEM_PAYLOAD = 2 };                /* SubscribeItem, PublishItem */
enum { RESULT_ERROR = 2, ACK_ITEM_ERROR = 3 };
enum { ERROR_CODE = 2, ERROR_MESSAGE = 3 };

/* ---- state ---------------------------------------------------------------------------------------------- */

struct bytes {
    uint8_t *at;
    size_t len, cap;
};

struct conn {
    int fd;
    uint8_t role, state;
    bool sampled;
    uint32_t index;          /* among the connections of its role */
    uint64_t publications;   /* whole publication frames received */
    struct bytes carry;      /* the unfinished frame at the end of the last read */
    struct bytes out;        /* bytes the kernel has not taken yet */
    size_t out_sent;
    struct bytes fragments;  /* WebSocket: the parts of an unfinished message */
    bool upgraded;           /* WebSocket: the HTTP part is over */
    bool polls_out;
};

static struct {
    enum proto proto;
    enum mode mode;
    uint16_t port;
    int subscribers, publishers, stalled, in_flight, payload_bytes, batch, sample_every;
    double seconds, warmup_s, rate, stall_s;
    int pids[PIDS_MAX], pids_len;
    bool selftest;
} opt = {.subscribers = 1, .publishers = 1, .in_flight = 1, .payload_bytes = 100, .batch = 1, .sample_every = 1,
         .seconds = 3, .warmup_s = 1, .rate = 1000, .stall_s = 10};

static struct {
    int epoll_fd, timer_fd;
    struct conn *conns;
    int conns_len, ready_len;
    uint64_t deliveries, published, acked, refused, pings, gaps, others;
    uint64_t now_ns, window_from_ns, window_to_ns;
} g;

static uint8_t read_buffer[FRAME_BYTES_MAX + READ_BYTES + 64];
static uint8_t payload[1 << 16];

static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS + (uint64_t)now.tv_nsec;
}

/* ---- byte buffers and protobuf -------------------------------------------------------------------------- */

static void reserve(struct bytes *b, size_t more)
{
    if (b->len + more <= b->cap)
        return;
    size_t cap = b->cap ? b->cap : 256;
    while (cap < b->len + more)
        cap *= 2;
    b->at = realloc(b->at, cap);
    if (!b->at)
        die("out of memory");
    b->cap = cap;
}

static void put(struct bytes *b, const void *data, size_t len)
{
    reserve(b, len);
    memcpy(b->at + b->len, data, len);
    b->len += len;
}

static void put_byte(struct bytes *b, uint8_t value)
{
    put(b, &value, 1);
}

static void put_text(struct bytes *b, const char *text)
{
    put(b, text, strlen(text));
}

static void put_format(struct bytes *b, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(b, text, (size_t)len);
}

static void put_varint(struct bytes *b, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_byte(b, (uint8_t)(value | 0x80));
    put_byte(b, (uint8_t)value);
}

static void put_number_field(struct bytes *b, int field, uint64_t value)
{
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, value);
}

static void put_bytes_field(struct bytes *b, int field, const void *data, size_t len)
{
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, len);
    put(b, data, len);
}

/* Read a varint at *at; false if it does not end before `end` or is too long. */
static bool get_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    const uint8_t *p = *at;
    uint64_t v = 0;
    for (int shift = 0; shift < 64 && p < end; shift += 7) {
        v |= (uint64_t)(*p & 0x7f) << shift;
        if (!(*p++ & 0x80)) {
            *at = p;
            *value = v;
            return true;
        }
    }
    return false;
}

struct field {
    int number;
    uint64_t value;        /* varints */
    const uint8_t *data;   /* length-delimited */
    size_t len;
};

/* Step to the next field of a protobuf message; false at its end. Bad protobuf ends the run. */
static bool next_field(const uint8_t **at, const uint8_t *end, struct field *f)
{
    uint64_t key, len;
    if (*at >= end)
        return false;
    if (!get_varint(at, end, &key))
        die("bad protobuf from the server");
    f->number = (int)(key >> 3);
    f->value = 0;
    f->data = NULL;
    f->len = 0;
    switch (key & 7) {
    case 0:
        if (get_varint(at, end, &f->value))
            return true;
        break;
    case 1:
        if (end - *at >= 8) {
            *at += 8;
            return true;
        }
        break;
    case 2:
        if (get_varint(at, end, &len) && len <= (uint64_t)(end - *at)) {
            f->data = *at;
            f->len = (size_t)len;
            *at += len;
            return true;
        }
        break;
    case 5:
        if (end - *at >= 4) {
            *at += 4;
            return true;
        }
        break;
    }
    die("bad protobuf from the server");
    return false;
}

/* ---- latency histogram: 128 steps per power of two, so a percentile is right within 0.8 % ---------------- */

#define STEP_BITS 7
#define STEPS (1u << STEP_BITS)
static uint64_t histogram[(64 - STEP_BITS + 1) * STEPS];
static uint64_t latency_count, latency_max_ns;
static double latency_sum_ns;

static void record_ns(uint64_t ns)
{
    unsigned shift = ns < STEPS ? 0 : (unsigned)(63 - __builtin_clzll(ns)) - STEP_BITS;
    unsigned slot = ns < STEPS ? (unsigned)ns : (shift + 1) * STEPS + (unsigned)((ns >> shift) - STEPS);
    histogram[slot]++;
    latency_count++;
    latency_sum_ns += (double)ns;
    if (ns > latency_max_ns)
        latency_max_ns = ns;
}

/* The upper end of the step that holds the given share of all samples. */
static uint64_t percentile_ns(double share)
{
    uint64_t seen = 0, wanted = (uint64_t)(share * (double)latency_count + 0.5);
    for (unsigned slot = 0; slot < sizeof histogram / sizeof *histogram; slot++) {
        seen += histogram[slot];
        if (seen && seen >= wanted) {
            unsigned group = slot >> STEP_BITS;
            uint64_t top = group ? ((uint64_t)(STEPS + (slot & (STEPS - 1)) + 1) << (group - 1)) - 1 : slot;
            return top < latency_max_ns ? top : latency_max_ns;
        }
    }
    return latency_max_ns;
}

static int hex_digit(uint8_t c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void record_latency(const uint8_t *frame, size_t len)
{
    static size_t place; /* where the stamp was last time: nearly always where it is now */
    const uint8_t *at = NULL;
    if (place + STAMP_LEN <= len && !memcmp(frame + place, STAMP, 4))
        at = frame + place;
    else if ((at = memmem(frame, len, STAMP, 4)) && at + STAMP_LEN <= frame + len)
        place = (size_t)(at - frame);
    else
        die("a publication without a time stamp");
    uint64_t sent_ns = 0;
    for (int i = 4; i < STAMP_LEN; i++)
        sent_ns = sent_ns << 4 | (uint64_t)hex_digit(at[i]);
    /* Messages of the warm-up and of the drain are not part of the sample, however late they come. */
    if (sent_ns >= g.window_from_ns && sent_ns < g.window_to_ns)
        record_ns(g.now_ns > sent_ns ? g.now_ns - sent_ns : 0);
}

static void stamp_payload(uint64_t value)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++)
        payload[4 + i] = (uint8_t)digits[value >> (60 - 4 * i) & 15];
}

/* ---- sending -------------------------------------------------------------------------------------------- */

static void watch(struct conn *c, bool out)
{
    struct epoll_event event = {.events = EPOLLIN | (out ? EPOLLOUT : 0u), .data.ptr = c};
    if (epoll_ctl(g.epoll_fd, EPOLL_CTL_MOD, c->fd, &event))
        die("epoll_ctl: %s", strerror(errno));
    c->polls_out = out;
}

static void flush(struct conn *c)
{
    if (c->fd < 0)
        return;
    while (c->out_sent < c->out.len) {
        ssize_t sent = send(c->fd, c->out.at + c->out_sent, c->out.len - c->out_sent, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN && errno != ENOTCONN)
                die("send: %s", strerror(errno));
            if (!c->polls_out)
                watch(c, true);
            return;
        }
        c->out_sent += (size_t)sent;
    }
    c->out.len = c->out_sent = 0;
    if (c->role != PUBLISHER) { /* idle sessions hold no buffers */
        free(c->out.at);
        c->out = (struct bytes){0};
    }
    if (c->polls_out)
        watch(c, false);
}

/* A masked client frame. The mask is zero: legal, and it keeps the generator lean. */
static void put_ws_frame(struct bytes *b, uint8_t opcode, const void *body, size_t len)
{
    put_byte(b, 0x80 | opcode);
    if (len < 126) {
        put_byte(b, (uint8_t)(0x80 | len));
    } else if (len < 65536) {
        put_byte(b, 0x80 | 126);
        put_byte(b, (uint8_t)(len >> 8));
        put_byte(b, (uint8_t)len);
    } else {
        put_byte(b, 0x80 | 127);
        for (int shift = 56; shift >= 0; shift -= 8)
            put_byte(b, (uint8_t)((uint64_t)len >> shift));
    }
    put(b, "\0\0\0\0", 4);
    put(b, body, len);
}

static void put_envelope(struct bytes *b, int event, const struct bytes *body)
{
    static struct bytes envelope;
    envelope.len = 0;
    put_number_field(&envelope, ENVELOPE_EVENT, (uint64_t)event);
    put_bytes_field(&envelope, ENVELOPE_PAYLOAD, body->at, body->len);
    put_ws_frame(b, 2, envelope.at, envelope.len);
}

static void put_mqtt_text(struct bytes *b, const char *text)
{
    size_t len = strlen(text);
    put_byte(b, (uint8_t)(len >> 8));
    put_byte(b, (uint8_t)len);
    put(b, text, len);
}

static void put_mqtt_packet(struct bytes *b, uint8_t first, const struct bytes *body)
{
    put_byte(b, first);
    put_varint(b, body->len); /* MQTT's remaining length is a varint too */
    put(b, body->at, body->len);
}

static void channel_name(char *name, size_t size, uint32_t index)
{
    if (opt.mode == FANOUT || opt.mode == LATENCY)
        index = 0; /* all on one channel */
    snprintf(name, size, "b:%06u", index);
}

/* What a connection says first. */
static void put_hello(struct conn *c)
{
    static struct bytes body;
    body.len = 0;
    switch (opt.proto) {
    case ARAUTO_PROTO:
    case ARAUTO_JSON:
        put_format(&c->out,
                   "GET /v1/ws?hub=bench HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUpgrade: websocket\r\n"
                   "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                   "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
                   opt.port, opt.proto == ARAUTO_PROTO ? "arauto.v1.proto" : "arauto.v1.json");
        break;
    case NATS:
        put_text(&c->out, "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"c\",\"version\":\"1\"}\r\nPING\r\n");
        break;
    case REDIS:
        put_text(&c->out, "PING\r\n");
        break;
    case MQTT:
        put_mqtt_text(&body, "MQTT");
        put(&body, "\x04\x02\0\0", 4); /* 3.1.1, clean session, no keep-alive */
        char id[32];
        snprintf(id, sizeof id, "%c%u", c->role == PUBLISHER ? 'p' : c->role == STALLED ? 'z' : 's', c->index);
        put_mqtt_text(&body, id);
        put_mqtt_packet(&c->out, 0x10, &body);
        break;
    }
}

static void put_subscribe(struct conn *c)
{
    static struct bytes body, item;
    char name[32];
    channel_name(name, sizeof name, c->index);
    body.len = item.len = 0;
    switch (opt.proto) {
    case ARAUTO_PROTO:
        put_bytes_field(&item, ITEM_CHANNEL, name, strlen(name));
        put_number_field(&body, REQUEST_ID, 1);
        put_bytes_field(&body, REQUEST_ITEMS, item.at, item.len);
        put_envelope(&c->out, EV_SUBSCRIBE, &body);
        break;
    case ARAUTO_JSON:
        put_format(&body, "{\"event\":\"subscribe\",\"id\":1,\"items\":[{\"channel\":\"%s\"}]}", name);
        put_ws_frame(&c->out, 1, body.at, body.len);
        break;
    case NATS:
        put_format(&c->out, "SUB %s 1\r\nPING\r\n", name);
        break;
    case REDIS:
        put_format(&c->out, "*2\r\n$9\r\nSUBSCRIBE\r\n$%zu\r\n%s\r\n", strlen(name), name);
        break;
    case MQTT:
        put(&body, "\0\1", 2);
        put_mqtt_text(&body, name);
        put_byte(&body, 0);
        put_mqtt_packet(&c->out, 0x82, &body);
        break;
    }
}

/* One publication frame of `opt.batch` equal items; `id` 0 asks for no answer. */
static void put_publish(struct bytes *out, const char *name, uint64_t id)
{
    static struct bytes body, item;
    size_t len = (size_t)opt.payload_bytes;
    body.len = item.len = 0;
    switch (opt.proto) {
    case ARAUTO_PROTO:
        put_bytes_field(&item, ITEM_CHANNEL, name, strlen(name));
        put_bytes_field(&item, ITEM_PAYLOAD, payload, len);
        if (id)
            put_number_field(&body, REQUEST_ID, id);
        for (int i = 0; i < opt.batch; i++)
            put_bytes_field(&body, REQUEST_ITEMS, item.at, item.len);
        put_envelope(out, EV_PUBLISH, &body);
        break;
    case ARAUTO_JSON:
        put_format(&item, "{\"channel\":\"%s\",\"text\":\"", name);
        put(&item, payload, len);
        put_text(&item, "\"}");
        put_format(&body, "{\"event\":\"publish\",\"id\":%llu,\"messages\":[", (unsigned long long)id);
        for (int i = 0; i < opt.batch; i++) {
            if (i)
                put_byte(&body, ',');
            put(&body, item.at, item.len);
        }
        put_text(&body, "]}");
        put_ws_frame(out, 1, body.at, body.len);
        break;
    case NATS:
        put_format(out, "PUB %s %zu\r\n", name, len);
        put(out, payload, len);
        put_text(out, "\r\n");
        break;
    case REDIS:
        put_format(out, "*3\r\n$7\r\nPUBLISH\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(name), name, len);
        put(out, payload, len);
        put_text(out, "\r\n");
        break;
    case MQTT:
        put_mqtt_text(&body, name);
        put(&body, payload, len);
        put_mqtt_packet(out, 0x30, &body);
        break;
    }
}

/* ---- what arrived --------------------------------------------------------------------------------------- */

static inline void on_publication(struct conn *c, const uint8_t *frame, size_t len)
{
    c->publications++;
    if (c->sampled)
        record_latency(frame, len);
}

/* The server answered the step that was under way: go to the next one. */
static void on_step_done(struct conn *c)
{
    if (c->state == OPENING && c->role != PUBLISHER) {
        c->state = SUBSCRIBING;
        put_subscribe(c);
        flush(c);
    } else if (c->state != READY) {
        c->state = READY;
        g.ready_len++;
        if (c->role == STALLED && c->fd >= 0) /* from now on nobody reads this one */
            epoll_ctl(g.epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    }
}

static void on_server_error(const void *text, size_t len)
{
    die("the server answered with an error: %.*s", (int)(len < 300 ? len : 300), (const char *)text);
}

/* ---- Arauto over WebSocket ------------------------------------------------------------------------------ */

static void on_proto_error(const uint8_t *at, size_t len)
{
    const uint8_t *end = at + len;
    struct field f;
    uint64_t code = 0;
    const uint8_t *text = NULL;
    size_t text_len = 0;
    while (next_field(&at, end, &f)) {
        if (f.number == ERROR_CODE)
            code = f.value;
        else if (f.number == ERROR_MESSAGE) {
            text = f.data;
            text_len = f.len;
        }
    }
    char message[400];
    int n = snprintf(message, sizeof message, "%llu %.*s", (unsigned long long)code, (int)(text_len < 300 ? text_len : 300),
                     text ? (const char *)text : "");
    on_server_error(message, (size_t)n);
}

/* Count the results of an Ack or SubscribeReply, and those among them that carry an error. */
static void count_results(const uint8_t *at, size_t len, int error_field, uint64_t *good, uint64_t *bad)
{
    const uint8_t *end = at + len;
    struct field f, inner;
    while (next_field(&at, end, &f)) {
        if (f.number != REQUEST_ITEMS)
            continue;
        const uint8_t *in = f.data, *in_end = f.data + f.len;
        bool failed = false;
        while (next_field(&in, in_end, &inner))
            failed |= inner.number == error_field;
        *(failed ? bad : good) += 1;
    }
}

static void on_proto_control(struct conn *c, int event, const uint8_t *body, size_t len)
{
    static struct bytes pong;
    uint64_t good = 0, bad = 0;
    const uint8_t *at = body, *end = body + len;
    struct field f;
    switch (event) {
    case EV_PING:
        g.pings++;
        pong.len = 0;
        while (next_field(&at, end, &f))
            if (f.number == REQUEST_ID)
                put_number_field(&pong, REQUEST_ID, f.value);
        put_envelope(&c->out, EV_PONG, &pong);
        flush(c);
        break;
    case EV_SESSION_INFO:
        if (c->state == OPENING)
            on_step_done(c);
        break;
    case EV_SUBSCRIBE:
        count_results(body, len, RESULT_ERROR, &good, &bad);
        if (bad)
            die("a subscription was refused");
        on_step_done(c);
        break;
    case EV_ACK:
        count_results(body, len, ACK_ITEM_ERROR, &g.acked, &g.refused);
        break;
    case EV_ERROR:
        on_proto_error(body, len);
        break;
    case EV_GAP:
        g.gaps++;
        break;
    default:
        g.others++;
    }
}

static void on_proto_message(struct conn *c, const uint8_t *at, size_t len)
{
    /* Every serialiser in use writes the event first: two bytes tell a publication from the rest. */
    if (len > 2 && at[0] == (ENVELOPE_EVENT << 3) && at[1] == EV_PUBLISH) {
        on_publication(c, at, len);
        return;
    }
    const uint8_t *end = at + len, *start = at, *body = at;
    size_t body_len = 0;
    uint64_t event = 0;
    struct field f;
    while (next_field(&at, end, &f)) {
        if (f.number == ENVELOPE_EVENT)
            event = f.value;
        else if (f.number == ENVELOPE_PAYLOAD) {
            body = f.data;
            body_len = f.len;
        }
    }
    if (event == EV_PUBLISH)
        on_publication(c, start, len);
    else
        on_proto_control(c, (int)event, body, body_len);
}

static bool has(const uint8_t *at, size_t len, const char *text)
{
    return memmem(at, len, text, strlen(text)) != NULL;
}

static uint64_t count_of(const uint8_t *at, size_t len, const char *text)
{
    uint64_t count = 0;
    const uint8_t *end = at + len;
    while ((at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
        at += strlen(text);
        count++;
    }
    return count;
}

/* The server's JSON is compact and starts with the event's name; that is part of the flavour's description. */
static void on_json_message(struct conn *c, const uint8_t *at, size_t len)
{
    static const char publish[] = "{\"event\":\"publish\",";
    static struct bytes pong;
    if (len > sizeof publish && !memcmp(at, publish, sizeof publish - 1)) {
        on_publication(c, at, len);
        return;
    }
    size_t head = len < 40 ? len : 40;
    if (has(at, head, "\"event\":\"ping\"")) {
        g.pings++;
        const uint8_t *id = memmem(at, len, "\"id\":", 5);
        pong.len = 0;
        put_format(&pong, "{\"event\":\"pong\",\"id\":%llu}",
                   id ? strtoull((const char *)id + 5, NULL, 10) : 0ull);
        put_ws_frame(&c->out, 1, pong.at, pong.len);
        flush(c);
    } else if (has(at, head, "\"event\":\"session_info\"")) {
        if (c->state == OPENING)
            on_step_done(c);
    } else if (has(at, head, "\"event\":\"subscribe\"")) {
        if (has(at, len, "\"error\":{"))
            on_server_error(at, len);
        on_step_done(c);
    } else if (has(at, head, "\"event\":\"ack\"")) {
        g.acked += count_of(at, len, "\"serial\":{");
        g.refused += count_of(at, len, "\"error\":{");
    } else if (has(at, head, "\"event\":\"error\"")) {
        on_server_error(at, len);
    } else if (has(at, head, "\"event\":\"gap\"")) {
        g.gaps++;
    } else {
        g.others++;
    }
}

static void on_ws_message(struct conn *c, const uint8_t *at, size_t len)
{
    if (opt.proto == ARAUTO_PROTO)
        on_proto_message(c, at, len);
    else
        on_json_message(c, at, len);
}

static void on_ws_fragment(struct conn *c, uint8_t first, const uint8_t *at, size_t len)
{
    put(&c->fragments, at, len);
    if (first & 0x80) {
        on_ws_message(c, c->fragments.at, c->fragments.len);
        c->fragments.len = 0;
    }
}

static void on_ws_frame(struct conn *c, uint8_t first, const uint8_t *at, size_t len)
{
    switch (first & 0x0f) {
    case 1:
    case 2:
        if (first & 0x80)
            on_ws_message(c, at, len);
        else
            on_ws_fragment(c, first, at, len);
        break;
    case 0:
        on_ws_fragment(c, first, at, len);
        break;
    case 8:
        die("the server closed a connection: %u %.*s", len >= 2 ? at[0] << 8 | at[1] : 0, (int)(len > 2 ? len - 2 : 0),
            len > 2 ? (const char *)at + 2 : "");
        break;
    case 9:
        g.pings++;
        put_ws_frame(&c->out, 10, at, len);
        flush(c);
        break;
    default:
        g.others++;
    }
}

static size_t parse_upgrade(struct conn *c, const uint8_t *at, size_t len)
{
    const uint8_t *end = memmem(at, len, "\r\n\r\n", 4);
    if (!end)
        return 0;
    if (len < 12 || memcmp(at, "HTTP/1.1 101", 12))
        die("the WebSocket upgrade was refused: %.*s", (int)(len < 200 ? len : 200), (const char *)at);
    c->upgraded = true;
    return (size_t)(end + 4 - at);
}

static size_t parse_ws(struct conn *c, const uint8_t *at, size_t len)
{
    const uint8_t *start = at, *end = at + len;
    while (end - at >= 2) {
        size_t head = 2;
        uint64_t body = at[1] & 0x7f;
        if (body == 126) {
            head = 4;
            if ((size_t)(end - at) < head)
                break;
            body = (uint64_t)at[2] << 8 | at[3];
        } else if (body == 127) {
            head = 10;
            if ((size_t)(end - at) < head)
                break;
            body = 0;
            for (int i = 2; i < 10; i++)
                body = body << 8 | at[i];
        }
        if (at[1] & 0x80 || body > FRAME_BYTES_MAX)
            die("a bad WebSocket frame header");
        if ((uint64_t)(end - at) - head < body)
            break;
        on_ws_frame(c, at[0], at + head, (size_t)body);
        at += head + body;
    }
    return (size_t)(at - start);
}

/* ---- NATS ----------------------------------------------------------------------------------------------- */

static size_t parse_nats(struct conn *c, const uint8_t *at, size_t len)
{
    const uint8_t *start = at, *end = at + len;
    while (at < end) {
        const uint8_t *eol = memchr(at, '\n', (size_t)(end - at));
        if (!eol)
            break;
        if (eol - at < 4)
            die("a bad NATS line");
        const uint8_t *next = eol + 1;
        if (!memcmp(at, "MSG ", 4) || !memcmp(at, "HMSG", 4)) {
            const uint8_t *digit = eol - 1; /* the carriage return; the size ends just before */
            size_t size = 0, unit = 1;
            while (digit > at && *--digit >= '0' && *digit <= '9') {
                size += (size_t)(*digit - '0') * unit;
                unit *= 10;
            }
            if (size > FRAME_BYTES_MAX)
                die("a bad NATS message size");
            next += size + 2;
            if (next > end)
                break;
            on_publication(c, at, (size_t)(next - at));
        } else if (!memcmp(at, "PING", 4)) {
            g.pings++;
            put_text(&c->out, "PONG\r\n");
            flush(c);
        } else if (!memcmp(at, "PONG", 4)) {
            on_step_done(c);
        } else if (*at == '-') {
            on_server_error(at, (size_t)(eol - at));
        } else {
            g.others++; /* INFO, +OK */
        }
        at = next;
    }
    return (size_t)(at - start);
}

/* ---- Redis ---------------------------------------------------------------------------------------------- */

/* Read `<sign><number>\r\n`; NULL if it is not all there. */
static const uint8_t *resp_number(const uint8_t *at, const uint8_t *end, long *value)
{
    long number = 0;
    bool negative = false;
    for (at++; at < end && *at != '\r'; at++) {
        if (*at == '-')
            negative = true;
        else if (*at >= '0' && *at <= '9' && number < 1l << 40)
            number = number * 10 + (*at - '0');
        else
            die("a bad RESP number");
    }
    *value = negative ? -number : number;
    return end - at >= 2 ? at + 2 : NULL;
}

/* Step over one bulk string or number of an array; NULL if it is not all there. */
static const uint8_t *resp_item(const uint8_t *at, const uint8_t *end, const uint8_t **text, long *len)
{
    if (at >= end)
        return NULL;
    *text = NULL;
    if (*at != '$' && *at != ':')
        die("an unexpected RESP item");
    bool bulk = *at == '$';
    at = resp_number(at, end, len);
    if (!at || !bulk || *len < 0)
        return at;
    *text = at;
    return end - at >= *len + 2 ? at + *len + 2 : NULL;
}

static const uint8_t *parse_resp_array(struct conn *c, const uint8_t *at, const uint8_t *end)
{
    const uint8_t *start = at, *text, *kind = NULL;
    long items, len, kind_len = 0;
    at = resp_number(at, end, &items);
    for (long i = 0; at && i < items; i++) {
        at = resp_item(at, end, &text, &len);
        if (i == 0) {
            kind = text;
            kind_len = len;
        }
    }
    if (!at)
        return NULL;
    if (kind && kind_len == 7 && !memcmp(kind, "message", 7))
        on_publication(c, start, (size_t)(at - start));
    else if (kind && kind_len == 9 && !memcmp(kind, "subscribe", 9))
        on_step_done(c);
    else
        g.others++;
    return at;
}

static size_t parse_redis(struct conn *c, const uint8_t *at, size_t len)
{
    const uint8_t *start = at, *end = at + len;
    while (at < end) {
        const uint8_t *next;
        if (*at == '*') {
            next = parse_resp_array(c, at, end);
        } else {
            next = memmem(at, (size_t)(end - at), "\r\n", 2);
            if (next) {
                next += 2;
                if (*at == '-')
                    on_server_error(at, (size_t)(next - at));
                else if (*at == ':')
                    g.acked++; /* PUBLISH says how many it reached */
                else if (*at == '+')
                    on_step_done(c); /* PONG */
                else
                    die("an unexpected RESP reply");
            }
        }
        if (!next)
            break;
        at = next;
    }
    return (size_t)(at - start);
}

/* ---- MQTT ----------------------------------------------------------------------------------------------- */

static size_t parse_mqtt(struct conn *c, const uint8_t *at, size_t len)
{
    const uint8_t *start = at, *end = at + len;
    while (end - at >= 2) {
        const uint8_t *body = at + 1;
        uint64_t size;
        if (!get_varint(&body, end, &size)) {
            if (end - at > 10)
                die("a bad MQTT length");
            break;
        }
        if (size > FRAME_BYTES_MAX)
            die("a bad MQTT length");
        if ((uint64_t)(end - body) < size)
            break;
        switch (*at >> 4) {
        case 3:
            on_publication(c, at, (size_t)(body - at) + (size_t)size);
            break;
        case 2: /* CONNACK */
            if (size < 2 || body[1])
                die("MQTT connect refused: %d", size < 2 ? -1 : body[1]);
            on_step_done(c);
            break;
        case 9: /* SUBACK */
            if (size < 3 || body[2] & 0x80)
                die("MQTT subscription refused");
            on_step_done(c);
            break;
        default:
            g.others++;
        }
        at = body + size;
    }
    return (size_t)(at - start);
}

/* ---- reading -------------------------------------------------------------------------------------------- */

static size_t parse(struct conn *c, const uint8_t *at, size_t len)
{
    switch (opt.proto) {
    case NATS:
        return parse_nats(c, at, len);
    case REDIS:
        return parse_redis(c, at, len);
    case MQTT:
        return parse_mqtt(c, at, len);
    default:
        break;
    }
    size_t used = 0;
    if (!c->upgraded && !(used = parse_upgrade(c, at, len)))
        return 0;
    return used + parse_ws(c, at + used, len - used);
}

/* Put the unfinished frame in front; returns where the next bytes go. */
static uint8_t *room_after_carry(struct conn *c)
{
    if (c->carry.len)
        memcpy(read_buffer, c->carry.at, c->carry.len);
    return read_buffer + c->carry.len;
}

/* Take `len` new bytes that lie where `room_after_carry` said. */
static void take(struct conn *c, size_t len)
{
    uint64_t before = c->publications;
    size_t total = c->carry.len + len;
    size_t used = parse(c, read_buffer, total);
    g.deliveries += c->publications - before;
    if (total - used > FRAME_BYTES_MAX)
        die("a frame is longer than %u bytes", FRAME_BYTES_MAX);
    c->carry.len = 0;
    if (used < total)
        put(&c->carry, read_buffer + used, total - used);
}

static void receive(struct conn *c)
{
    ssize_t len = recv(c->fd, room_after_carry(c), READ_BYTES, 0);
    if (len < 0 && errno == EAGAIN)
        return;
    if (len <= 0)
        die("the server closed connection %d: %s", (int)(c - g.conns), len ? strerror(errno) : "end of stream");
    if (opt.mode == LATENCY)
        g.now_ns = clock_ns();
    take(c, (size_t)len);
}

/* Wait for events and handle them; false once stdin is closed (only `idle` looks at it). */
static bool poll_once(int timeout_ms)
{
    static struct epoll_event events[512];
    bool go_on = true;
    int count = epoll_wait(g.epoll_fd, events, 512, timeout_ms);
    for (int i = 0; i < count; i++) {
        struct conn *c = events[i].data.ptr;
        if (c == NULL) { /* the timer */
            uint64_t ticks;
            if (read(g.timer_fd, &ticks, sizeof ticks) < 0 && errno != EAGAIN)
                die("timer: %s", strerror(errno));
        } else if ((void *)c == (void *)&g) { /* stdin */
            char skipped[64];
            go_on = read(0, skipped, sizeof skipped) > 0;
        } else {
            if (events[i].events & EPOLLOUT)
                flush(c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                receive(c);
        }
    }
    return go_on;
}

/* ---- connecting ----------------------------------------------------------------------------------------- */

static void open_connection(struct conn *c, int number)
{
    int on = 1, small = 4096, ethernet = 1460;
    struct sockaddr_in here = {.sin_family = AF_INET}, there = {.sin_family = AF_INET, .sin_port = htons(opt.port)};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)(number / SOCKETS_PER_ADDRESS));
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        die("socket %d: %s", number, strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (c->role == STALLED) {
        /* Fills soon, so that the server feels it: loopback's 64 KB segments would let megabytes wait in the kernel. */
        setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        setsockopt(c->fd, IPPROTO_TCP, TCP_MAXSEG, &ethernet, sizeof ethernet);
    }
    if (bind(c->fd, (struct sockaddr *)&here, sizeof here))
        die("bind: %s", strerror(errno));
    if (connect(c->fd, (struct sockaddr *)&there, sizeof there) && errno != EINPROGRESS)
        die("connect: %s", strerror(errno));
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
    if (epoll_ctl(g.epoll_fd, EPOLL_CTL_ADD, c->fd, &event))
        die("epoll_ctl: %s", strerror(errno));
    c->polls_out = true;
    put_hello(c);
}

static void open_all(void)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < (rlim_t)g.conns_len + 16)
        die("%d connections need more open files than the limit of %lu", g.conns_len, (unsigned long)files.rlim_cur);
    uint64_t moved_ns = clock_ns();
    int opened = 0, ready = 0;
    while (g.ready_len < g.conns_len) {
        while (opened < g.conns_len && opened - g.ready_len < CONNECTING_MAX) {
            open_connection(&g.conns[opened], opened);
            opened++;
        }
        poll_once(100);
        if (g.ready_len > ready) {
            ready = g.ready_len;
            moved_ns = clock_ns();
        } else if (clock_ns() - moved_ns > (uint64_t)(opt.stall_s * NS)) {
            die("%d of %d connections are ready, and no more come", g.ready_len, g.conns_len);
        }
    }
}

static void make_connections(void)
{
    g.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    g.conns_len = opt.publishers + opt.subscribers + opt.stalled;
    g.conns = calloc((size_t)g.conns_len, sizeof *g.conns);
    for (int i = 0; i < g.conns_len; i++) {
        struct conn *c = &g.conns[i];
        int from = i < opt.publishers ? 0 : i < opt.publishers + opt.subscribers ? opt.publishers : g.conns_len - opt.stalled;
        c->role = i < opt.publishers ? PUBLISHER : i < opt.publishers + opt.subscribers ? SUBSCRIBER : STALLED;
        c->index = (uint32_t)(i - from);
        c->sampled = opt.mode == LATENCY && c->role == SUBSCRIBER && c->index % (uint32_t)opt.sample_every == 0;
    }
    open_all();
}

/* ---- running -------------------------------------------------------------------------------------------- */

struct snapshot {
    uint64_t at_ns, deliveries, published, acked;
    double server_cpu_s, own_cpu_s;
};

/* User and system time of the server's processes, all their threads included. */
static double server_cpu_s(void)
{
    unsigned long long ticks = 0;
    for (int i = 0; i < opt.pids_len; i++) {
        char path[64], text[1024];
        unsigned long long user, system;
        snprintf(path, sizeof path, "/proc/%d/stat", opt.pids[i]);
        FILE *file = fopen(path, "r");
        if (!file)
            die("the server's process %d is gone", opt.pids[i]);
        size_t len = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[len] = 0;
        char *after_name = strrchr(text, ')');
        if (!after_name || sscanf(after_name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
            die("cannot read %s", path);
        ticks += user + system;
    }
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static struct snapshot snap(void)
{
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    return (struct snapshot){
        .at_ns = clock_ns(), .deliveries = g.deliveries, .published = g.published, .acked = g.acked,
        .server_cpu_s = server_cpu_s(),
        .own_cpu_s = (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec)
            + (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) / 1e6};
}

/* Messages, or deliveries of them, that the server still owes. */
static int64_t outstanding(void)
{
    if (opt.mode == STORED)
        return (int64_t)(g.published - g.acked - g.refused);
    uint64_t fan = opt.mode == SPREAD ? 1 : (uint64_t)opt.subscribers;
    return (int64_t)(g.published * fan - g.deliveries);
}

/* Send one more publication frame; false if the socket is full and the frame would only wait here. */
static bool publish_one(uint64_t stamp)
{
    char name[32];
    uint64_t frames = g.published / (uint64_t)opt.batch;
    struct conn *c = &g.conns[frames % (uint64_t)opt.publishers];
    if (c->out.len - c->out_sent > OUT_BYTES_MAX)
        return false;
    channel_name(name, sizeof name, opt.mode == SPREAD ? (uint32_t)(g.published % (uint64_t)opt.subscribers) : c->index);
    stamp_payload(stamp);
    put_publish(&c->out, name, opt.mode == STORED ? frames + 1 : 0);
    g.published += (uint64_t)opt.batch;
    return true;
}

static void flush_publishers(void)
{
    for (int i = 0; i < opt.publishers; i++)
        if (g.conns[i].out.len > g.conns[i].out_sent && !g.conns[i].polls_out)
            flush(&g.conns[i]);
}

/* The same rule for every server: another message may leave while less than W messages' worth is owed. */
static void publish_closed_loop(void)
{
    int64_t fan = opt.mode == FANOUT ? opt.subscribers : 1;
    int64_t owed_max = (int64_t)opt.in_flight * fan;
    while (outstanding() < owed_max && publish_one(g.published))
        ;
    flush_publishers();
}

/* Messages leave when they are due, whatever came back; the stamp is the time they were due. */
static void publish_open_loop(uint64_t begin_ns, uint64_t *sequence, uint64_t until_ns)
{
    uint64_t now = clock_ns(), due_ns;
    for (;; ++*sequence) {
        due_ns = begin_ns + (uint64_t)((double)*sequence / opt.rate * 1e9);
        if (due_ns > now || due_ns >= until_ns || !publish_one(due_ns))
            break;
    }
    flush_publishers();
    struct itimerspec timer = {.it_value = {(time_t)(due_ns / NS), (long)(due_ns % NS)}};
    timerfd_settime(g.timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
}

static void watch_extra(int fd, void *mark)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = mark};
    if (epoll_ctl(g.epoll_fd, EPOLL_CTL_ADD, fd, &event))
        die("epoll_ctl: %s", strerror(errno));
}

/* Warm up, measure, then wait until what is owed has come; the last step decides what was lost. */
static void run(struct snapshot *from, struct snapshot *to)
{
    uint64_t begin_ns = clock_ns(), moved_ns = begin_ns, progress = 0, sequence = 0;
    g.window_from_ns = begin_ns + (uint64_t)(opt.warmup_s * 1e9);
    g.window_to_ns = g.window_from_ns + (uint64_t)(opt.seconds * 1e9);
    if (opt.mode == LATENCY) {
        g.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        watch_extra(g.timer_fd, NULL);
    }
    for (;;) {
        uint64_t now = clock_ns();
        if (!from->at_ns && now >= g.window_from_ns)
            *from = snap();
        if (!to->at_ns && now >= g.window_to_ns)
            *to = snap();
        if (opt.mode == LATENCY)
            publish_open_loop(begin_ns, &sequence, g.window_to_ns);
        else if (!to->at_ns)
            publish_closed_loop();
        if (to->at_ns && outstanding() <= 0)
            break;
        poll_once(20);
        if (g.deliveries + g.acked + g.refused != progress) {
            progress = g.deliveries + g.acked + g.refused;
            moved_ns = clock_ns();
        } else if (outstanding() > 0 && clock_ns() - moved_ns > (uint64_t)(opt.stall_s * 1e9)) {
            if (to->at_ns)
                break;
            die("no delivery for %.0f s with %lld owed", opt.stall_s, (long long)outstanding());
        }
    }
}

/* Subscribers whose whole-frame count is not exactly what was published to their channel. */
static int uneven_subscribers(void)
{
    int uneven = 0;
    uint64_t channels = opt.mode == SPREAD ? (uint64_t)opt.subscribers : 1;
    for (int i = 0; i < g.conns_len; i++) {
        struct conn *c = &g.conns[i];
        uint64_t expected = g.published / channels + (c->index < g.published % channels);
        uneven += c->role == SUBSCRIBER && c->publications != (channels == 1 ? g.published : expected);
    }
    return uneven;
}

static void report(const struct snapshot *from, const struct snapshot *to)
{
    double seconds = (double)(to->at_ns - from->at_ns) / 1e9;
    printf("{\"generator\":\"c\",\"proto\":\"%s\",\"mode\":\"%s\",\"subscribers\":%d,\"in_flight\":%d,\"batch\":%d,"
           "\"publishers\":%d,\"stalled\":%d,\"payload_bytes\":%d,\"seconds\":%.6f,",
           PROTO_NAMES[opt.proto], MODE_NAMES[opt.mode], opt.subscribers, opt.in_flight, opt.batch, opt.publishers,
           opt.stalled, opt.payload_bytes, seconds);
    printf("\"deliveries\":%llu,\"publishes\":%llu,\"acks\":%llu,\"server_cpu_s\":%.3f,\"generator_cpu_s\":%.3f,",
           (unsigned long long)(to->deliveries - from->deliveries), (unsigned long long)(to->published - from->published),
           (unsigned long long)(to->acked - from->acked), to->server_cpu_s - from->server_cpu_s,
           to->own_cpu_s - from->own_cpu_s);
    printf("\"published_total\":%llu,\"delivered_total\":%llu,\"acked_total\":%llu,\"refused_total\":%llu,"
           "\"lost\":%lld,\"uneven_subscribers\":%d,\"gaps\":%llu",
           (unsigned long long)g.published, (unsigned long long)g.deliveries, (unsigned long long)g.acked,
           (unsigned long long)g.refused, (long long)outstanding(), opt.mode == STORED ? 0 : uneven_subscribers(),
           (unsigned long long)g.gaps);
    if (opt.mode == LATENCY)
        printf(",\"rate\":%.3f,\"latency\":{\"samples\":%llu,\"mean_ms\":%.6f,\"p50_ms\":%.6f,\"p90_ms\":%.6f,"
               "\"p99_ms\":%.6f,\"p999_ms\":%.6f,\"max_ms\":%.6f}",
               opt.rate, (unsigned long long)latency_count, latency_count ? latency_sum_ns / (double)latency_count / 1e6 : 0.0,
               (double)percentile_ns(.5) / 1e6, (double)percentile_ns(.9) / 1e6, (double)percentile_ns(.99) / 1e6,
               (double)percentile_ns(.999) / 1e6, (double)latency_max_ns / 1e6);
    puts("}");
}

/* Open the sessions, say so, and hold them (answering pings) until stdin ends. */
static void hold_idle(void)
{
    printf("{\"generator\":\"c\",\"proto\":\"%s\",\"mode\":\"idle\",\"ready\":%d}\n", PROTO_NAMES[opt.proto], g.ready_len);
    fflush(stdout);
    watch_extra(0, &g);
    while (poll_once(-1))
        ;
}

/* ---- self-test: a byte stream on stdin, cut at every place ------------------------------------------------ */

static void selftest_feed(struct conn *c, const uint8_t *at, size_t len, size_t step)
{
    for (size_t done = 0; done < len; done += step) {
        size_t part = len - done < step ? len - done : step;
        memcpy(room_after_carry(c), at + done, part);
        take(c, part);
    }
}

static void selftest_counts(char *text, size_t size, const struct conn *c)
{
    snprintf(text, size,
             "{\"publications\":%llu,\"acked\":%llu,\"refused\":%llu,\"pings\":%llu,\"gaps\":%llu,\"others\":%llu,"
             "\"steps\":%d,\"rest_bytes\":%zu,\"answer_bytes\":%zu}",
             (unsigned long long)c->publications, (unsigned long long)g.acked, (unsigned long long)g.refused,
             (unsigned long long)g.pings, (unsigned long long)g.gaps, (unsigned long long)g.others,
             g.ready_len, c->carry.len, c->out.len);
    g.deliveries = g.acked = g.refused = g.pings = g.gaps = g.others = 0;
    g.ready_len = 0;
}

/* Cut 0 is the whole stream at once; cut len is one byte at a time; all others two parts. All must agree. */
static int selftest(void)
{
    static uint8_t stream[1 << 20];
    char whole[512], cut_up[512];
    size_t len = fread(stream, 1, sizeof stream, stdin);
    for (size_t cut = 0; cut <= len; cut++) {
        struct conn c = {.fd = -1, .role = SUBSCRIBER, .state = SUBSCRIBING, .upgraded = true};
        if (cut == len) {
            selftest_feed(&c, stream, len, 1);
        } else {
            selftest_feed(&c, stream, cut, cut ? cut : 1);
            selftest_feed(&c, stream + cut, len - cut, len - cut);
        }
        selftest_counts(cut ? cut_up : whole, sizeof whole, &c);
        free(c.carry.at);
        free(c.out.at);
        free(c.fragments.at);
        if (cut && strcmp(whole, cut_up))
            die("cut at %zu: %s instead of %s", cut, cut_up, whole);
    }
    puts(whole);
    return 0;
}

/* ---- options -------------------------------------------------------------------------------------------- */

static int one_of(const char *const *names, const char *text, const char *what)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], text))
            return i;
    die("unknown %s %s", what, text);
    return -1;
}

static long number(const char *text, long from, long to, const char *what)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || end == text || value < from || value > to)
        die("--%s is a number from %ld to %ld, not %s", what, from, to, text);
    return value;
}

static double decimal(const char *text, const char *what)
{
    char *end;
    double value = strtod(text, &end);
    if (*end || end == text || !(value >= 0 && value < 1e9))
        die("--%s is not a number: %s", what, text);
    return value;
}

static void take_option(const char *name, const char *value)
{
    if (!strcmp(name, "proto"))
        opt.proto = (enum proto)one_of(PROTO_NAMES, value, name);
    else if (!strcmp(name, "mode"))
        opt.mode = (enum mode)one_of(MODE_NAMES, value, name);
    else if (!strcmp(name, "port"))
        opt.port = (uint16_t)number(value, 1, 65535, name);
    else if (!strcmp(name, "subscribers"))
        opt.subscribers = (int)number(value, 0, 1000000, name);
    else if (!strcmp(name, "publishers"))
        opt.publishers = (int)number(value, 1, 1000, name);
    else if (!strcmp(name, "stalled"))
        opt.stalled = (int)number(value, 0, 100000, name);
    else if (!strcmp(name, "in-flight"))
        opt.in_flight = (int)number(value, 1, 1000000, name);
    else if (!strcmp(name, "batch"))
        opt.batch = (int)number(value, 1, 1000, name);
    else if (!strcmp(name, "payload-bytes"))
        opt.payload_bytes = (int)number(value, STAMP_LEN, sizeof payload, name);
    else if (!strcmp(name, "sample-every"))
        opt.sample_every = (int)number(value, 1, 1000000, name);
    else if (!strcmp(name, "seconds"))
        opt.seconds = decimal(value, name);
    else if (!strcmp(name, "warmup"))
        opt.warmup_s = decimal(value, name);
    else if (!strcmp(name, "rate"))
        opt.rate = decimal(value, name);
    else if (!strcmp(name, "stall"))
        opt.stall_s = decimal(value, name);
    else if (!strcmp(name, "server-pid") && opt.pids_len < PIDS_MAX)
        opt.pids[opt.pids_len++] = (int)number(value, 1, 1l << 30, name);
    else if (!strcmp(name, "selftest"))
        opt.selftest = true;
}

static void take_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"proto", 1, 0, 0},       {"mode", 1, 0, 0},          {"port", 1, 0, 0},         {"subscribers", 1, 0, 0},
        {"publishers", 1, 0, 0},  {"stalled", 1, 0, 0},       {"in-flight", 1, 0, 0},    {"batch", 1, 0, 0},
        {"seconds", 1, 0, 0},     {"payload-bytes", 1, 0, 0}, {"sample-every", 1, 0, 0}, {"warmup", 1, 0, 0},
        {"rate", 1, 0, 0},        {"stall", 1, 0, 0},         {"server-pid", 1, 0, 0},   {"selftest", 0, 0, 0},
        {0, 0, 0, 0}};
    int which, result;
    while ((result = getopt_long(argc, argv, "", options, &which)) == 0)
        take_option(options[which].name, optarg);
    if (result != -1 || optind < argc)
        die("bad arguments");
    bool arauto = opt.proto == ARAUTO_PROTO || opt.proto == ARAUTO_JSON;
    if ((opt.mode == STORED || opt.batch > 1) && !arauto)
        die("stored and batched publishing are for Arauto");
    if (opt.batch > opt.in_flight)
        die("--batch is at most --in-flight");
    if (opt.mode == IDLE)
        opt.publishers = 0;
    if (opt.mode == STORED)
        opt.subscribers = 0;
    else if (opt.subscribers < 1)
        die("--subscribers is at least 1");
    if (opt.mode == LATENCY && opt.rate <= 0)
        die("--rate is more than 0");
}

int main(int argc, char **argv)
{
    struct snapshot from = {0}, to = {0};
    take_options(argc, argv);
    memset(payload, 'x', sizeof payload);
    memcpy(payload, STAMP, 4);
    if (opt.selftest)
        return selftest();
    make_connections();
    if (opt.mode == IDLE) {
        hold_idle();
        return 0;
    }
    run(&from, &to);
    report(&from, &to);
    return 0;
}
