"""A report of a lively week, made up but with the shape of real traffic; the same every time."""

import math
import random

from arauto.pipeline.report.model import (
    ChannelRow,
    Gap,
    Peak,
    Point,
    Quality,
    Ranked,
    Report,
    RuleRow,
    Totals,
)

HOUR_MS = 3_600_000
MONDAY_MS = 1_793_577_600_000  # 2 November 2026


def sample_report(hub: str = "shop") -> Report:
    """Seven days by the hour."""
    chance = random.Random(5)
    points = []
    starts: dict[tuple[int, int], int] = {}
    for hour in range(7 * 24):
        weekday, of_day = divmod(hour, 24)
        wave = max(0.06, math.sin((of_day - 5) / 24 * 2 * math.pi * 0.93)) * (
            0.55 if weekday > 4 else 1
        )
        load = wave * chance.uniform(0.85, 1.15) * (2.1 if (weekday, of_day) == (3, 14) else 1)
        messages = int(182_000 * load)
        starts[weekday, of_day] = int(2_400 * load)
        mean = 240_000 * chance.uniform(0.9, 1.1) + 90_000 * wave
        points.append(
            Point(
                MONDAY_MS + hour * HOUR_MS,
                messages_in=messages,
                messages_out=int(messages * chance.uniform(3.1, 3.5)),
                bytes_in=messages * 310,
                bytes_out=messages * 1_010,
                sessions=int(3_900 * load),
                refused=int(messages * 0.002 * chance.uniform(0.4, 1.6)),
                mean_ms=mean,
                p50_ms=int(mean * 0.62),
                p95_ms=int(mean * 2.9),
                p99_ms=int(mean * 4.6),
            )
        )
    total_in = sum(p.messages_in for p in points)
    now = Totals(
        messages_in=total_in,
        messages_out=sum(p.messages_out for p in points),
        bytes_in=sum(p.bytes_in for p in points),
        bytes_out=sum(p.bytes_out for p in points),
        published=total_in // 3,
        refused=sum(p.refused for p in points),
        sessions_started=sum(starts.values()),
        sessions_ended=sum(starts.values()) - 40,
        sessions_peak=max(p.sessions for p in points),
        users=48_211,
        channels=1_934,
        duration_mean_ms=288_000,
        duration_p95_ms=840_000,
        rules_fired=173,
    )
    before = Totals(
        messages_in=int(total_in * 0.86),
        messages_out=int(now.messages_out * 0.83),
        bytes_out=int(now.bytes_out * 0.9),
        refused=int(now.refused * 1.35),
        sessions_started=int(now.sessions_started * 0.93),
        sessions_peak=int(now.sessions_peak * 0.997),
        users=44_870,
        duration_mean_ms=301_000,
        rules_fired=121,
    )
    names = ["orders", "stock:prices", "carts", "chat:support", "payments", "stock:42", "/plant/hall/3",
             "presence:web", "u:alice", "<script>alert(1)</script>"]  # fmt: skip
    hours = sorted(points, key=lambda p: -p.messages_in)[:5]
    return Report(
        hub=hub,
        from_ms=MONDAY_MS,
        to_ms=MONDAY_MS + 7 * 24 * HOUR_MS,
        made_ms=MONDAY_MS + 7 * 24 * HOUR_MS + 900_000,
        step="hour",
        now=now,
        before=before,
        points=tuple(points),
        hours=tuple(
            Peak(p.start_ms, p.messages_in // 3, "stock:prices", p.messages_in // 7) for p in hours
        ),
        minutes=tuple(
            Peak(
                hours[0].start_ms + 60_000 * n * 7, 9_431 - 377 * n, "stock:prices", 5_210 - 200 * n
            )
            for n in range(5)
        ),
        starts=starts,
        errors=(
            Ranked("RATE_LIMITED", 12_904),
            Ranked("PUBLISH_DENIED", 5_310),
            Ranked("TOKEN_EXPIRED", 3_377),
            Ranked("BAD_CHANNEL_NAME", 411),
        ),
        channels=tuple(
            ChannelRow(name, 2_400_000 // (n + 1), 744_000_000 // (n + 1))
            for n, name in enumerate(names)
        ),
        users=tuple(Ranked(f"user-{n:03}", 51_000 // (n + 2)) for n in range(10)),
        rules=(
            RuleRow("fx-spike-held", 121, MONDAY_MS + 40 * HOUR_MS),
            RuleRow("cart-abandoned", 44, MONDAY_MS + 160 * HOUR_MS),
            RuleRow("sector-moves", 8, MONDAY_MS + 62 * HOUR_MS),
        ),
        quality=Quality(
            journal_rows=8_123_409,
            missing_rows=180,
            gaps=(Gap("n2", 40_001, 40_180),),
            quarantined_rows=12,
            quarantined=(Ranked("payload is not UTF-8", 12),),
        ),
    )
