"""What a job's row says about its ticks."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.scheduler.schedules.reading import read_schedule
from warren.scheduler.schedules.registry import has_schedule, shown_as, written
from warren.scheduler.schedules.schedule import Schedule, ScheduleFacts

HOUR_MS = 3_600_000
NOON = int(datetime(2026, 12, 1, 12, tzinfo=UTC).timestamp()) * 1_000


def rate(seconds: int) -> Schedule:
    return read_schedule(ScheduleFacts("FIX_RATE", str(seconds), "UTC"))


def test_cron_ticks_follow_the_zone_of_the_job() -> None:
    schedule = read_schedule(ScheduleFacts("CRON", "0 0 2 * * ?", "Asia/Shanghai"))

    tick = schedule.next_after(NOON, 0)

    assert tick == NOON + 6 * HOUR_MS


def test_rate_ticks_are_whole_periods_from_the_anchor() -> None:
    schedule = rate(30)
    anchor = NOON + 7

    ticks = schedule.ticks(NOON, NOON + 90_000, anchor, limit=10)

    assert ticks == [anchor, anchor + 30_000, anchor + 60_000]


@given(st.integers(1, 10_000), st.integers(-50, 50))
def test_any_tick_serves_as_anchor_of_a_rate(seconds: int, shift: int) -> None:
    schedule = rate(seconds)

    tick = schedule.next_after(NOON, NOON - 123_456)
    same = schedule.next_after(NOON, NOON - 123_456 + shift * seconds * 1_000)

    assert tick == same


def test_rate_after_a_long_stop_keeps_its_phase() -> None:
    schedule = rate(7)

    tick = schedule.next_after(NOON + 1_000 * HOUR_MS, NOON)

    assert tick is not None
    assert (tick - NOON) % 7_000 == 0
    assert 0 < tick - (NOON + 1_000 * HOUR_MS) <= 7_000


def test_delay_has_only_the_tick_that_is_open() -> None:
    schedule = read_schedule(ScheduleFacts("FIX_DELAY", "60", "UTC"))

    assert schedule.next_after(NOON - 1, NOON) == NOON
    assert schedule.next_after(NOON, NOON) is None
    assert schedule.ticks(NOON - HOUR_MS, NOON + HOUR_MS, NOON, limit=10) == [NOON]


def test_end_of_a_run_sets_the_next_tick_of_a_delay() -> None:
    schedule = read_schedule(ScheduleFacts("FIX_DELAY", "60", "UTC"))

    assert schedule.waits_for_completion
    assert schedule.after_completion(NOON + 5) == NOON + 60_005


@pytest.mark.parametrize(
    ("kind", "conf"),
    [("NONE", ""), ("CRON", "0 0 2 * * ?"), ("FIX_RATE", "60"), ("AT", "2026-12-01T12:00:00Z")],
)
def test_end_of_a_run_sets_nothing_for_other_schedules(kind: str, conf: str) -> None:
    schedule = read_schedule(ScheduleFacts(kind, conf, "UTC"))

    assert not schedule.waits_for_completion
    assert schedule.after_completion(NOON) is None


@pytest.mark.parametrize(
    "conf", ["2026-12-01T20:00:00+08:00", "2026-12-01T12:00:00Z", "2026-12-01 07:00-05:00"]
)
def test_at_has_one_tick_whatever_the_offset_it_is_written_in(conf: str) -> None:
    schedule = read_schedule(ScheduleFacts("AT", conf, "Asia/Shanghai"))

    assert schedule.next_after(0, 0) == NOON
    assert schedule.next_after(NOON, 0) is None
    assert schedule.last_until(0, NOON + 1, 0) == NOON
    assert schedule.last_until(0, NOON - 1, 0) is None


def test_at_keeps_milliseconds() -> None:
    schedule = read_schedule(ScheduleFacts("AT", "2026-12-01T12:00:00.123456+00:00", "UTC"))

    assert schedule.next_after(0, 0) == NOON + 123


def test_job_without_schedule_is_never_due() -> None:
    schedule = read_schedule(ScheduleFacts("NONE", "left over", "Mars/X"))

    assert schedule.next_after(0, 0) is None
    assert schedule.last_until(0, NOON, 0) is None
    assert schedule.count(0, NOON, 0) == 0


def test_schedule_that_is_over_shows_it() -> None:
    schedule = read_schedule(ScheduleFacts("CRON", "0 0 12 1 1 ? 2020", "UTC"))

    assert schedule.next_after(NOON, 0) is None


def test_list_of_ticks_is_cut_at_its_limit() -> None:
    ticks = rate(1).ticks(NOON, NOON + HOUR_MS, NOON, limit=3)

    assert ticks == [NOON + 1_000, NOON + 2_000, NOON + 3_000]


SCHEDULES = [
    ("CRON", "*/7 * * * * ?"),
    ("CRON", "0 0/30 1-3 * * ?"),
    ("FIX_RATE", "13"),
    ("FIX_DELAY", "60"),
    ("AT", "2026-12-01T12:00:00Z"),
    ("NONE", ""),
]


@given(
    st.sampled_from(SCHEDULES),
    st.integers(-HOUR_MS, HOUR_MS),
    st.integers(-1_000, 1_000_000),
    st.integers(-HOUR_MS, HOUR_MS),
)
def test_count_and_last_agree_with_the_list(
    row: tuple[str, str], shift: int, length: int, anchor_shift: int
) -> None:
    schedule = read_schedule(ScheduleFacts(*row, timezone="America/New_York"))
    after, until, anchor = NOON + shift, NOON + shift + length, NOON + anchor_shift

    ticks = schedule.ticks(after, until, anchor, limit=1_000)

    assert schedule.count(after, until, anchor) == len(ticks)
    assert schedule.last_until(after, until, anchor) == (ticks[-1] if ticks else None)
    assert all(after < tick <= until for tick in ticks)


@pytest.mark.parametrize(
    ("kind", "conf", "words"),
    [
        (
            "HOURLY",
            "",
            "expected schedule kind to be one of NONE, CRON, UNIX_CRON, WORKDAY, FIX_RATE,",
        ),
        ("cron", "0 0 2 * * ?", "expected schedule kind to be one of"),
        ("CRON", "0 0 25 * * ?", "expected hour to be 0-23, got: '25'"),
        ("FIX_RATE", "0", "expected period to be 1-999999999 whole seconds, got: '0'"),
        ("FIX_RATE", "-1", "expected period to be"),
        ("FIX_RATE", "1.5", "expected period to be"),
        ("FIX_RATE", "", "expected period to be"),
        ("FIX_RATE", "9" * 10_240, "expected period to be"),
        ("FIX_DELAY", "soon", "expected period to be 1-999999999 whole seconds, got: 'soon'"),
        ("AT", "2026-12-01T08:00:00", "expected at to be an ISO 8601 instant with its offset"),
        ("AT", "2026-12-01", "expected at to be an ISO 8601 instant with its offset"),
        (
            "AT",
            "tomorrow",
            "expected at to be an ISO 8601 instant with its offset, got: 'tomorrow'",
        ),
        ("AT", "2" * 10_240, "expected at to be"),
    ],
)
def test_refusal_says_in_one_line_what_is_wrong(kind: str, conf: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^expected [^\n]+$") as refusal:
        read_schedule(ScheduleFacts(kind, conf, "UTC"))

    assert str(refusal.value).startswith(words)
    assert len(str(refusal.value)) < 250


def test_unknown_time_zone_of_a_cron_job_is_refused() -> None:
    with pytest.raises(ValueError, match="expected timezone to be an IANA name, got: 'Mars/X'"):
        read_schedule(ScheduleFacts("CRON", "0 0 2 * * ?", "Mars/X"))


def test_equal_rows_are_equal_schedules() -> None:
    one, two = (read_schedule(ScheduleFacts("FIX_RATE", "5", "UTC")) for _ in range(2))

    assert one == two
    assert one.kind == "FIX_RATE"
    assert hash(one) == hash(two)


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("CRON", "0 0 2 * * ?", "cron 0 0 2 * * ?"),
        ("FIX_RATE", "60", "every 60 s"),
        ("FIX_DELAY", "60", "delay 60 s"),
        ("FIX_DELAY", "soon", "delay soon s"),
        ("AT", "2026-12-01T08:00:00+08:00", "at 2026-12-01T08:00:00+08:00"),
        ("NONE", "left over", "none"),
    ],
)
def test_a_schedule_is_written_in_the_words_of_a_job_file(
    kind: str, value: str, words: str
) -> None:
    assert written(kind, value) == words


@pytest.mark.parametrize(
    ("kind", "value", "entry"),
    [
        ("CRON", "0 0 2 * * ?", {"cron": "0 0 2 * * ?"}),
        ("FIX_RATE", "060", {"every": 60}),
        ("FIX_DELAY", "60", {"delay": 60}),
        ("FIX_DELAY", "soon", {"delay": "soon"}),
        ("AT", "2026-12-01T08:00:00+08:00", {"at": "2026-12-01T08:00:00+08:00"}),
        ("NONE", "left over", {}),
    ],
)
def test_a_job_file_has_it_by_its_keyword(
    kind: str, value: str, entry: dict[str, str | int]
) -> None:
    assert shown_as(kind).in_job_file(value) == entry


def test_a_kind_that_is_unknown_here_can_be_shown_but_not_read() -> None:
    assert has_schedule("LUNAR")
    assert written("LUNAR", "full moon") == "LUNAR full moon"
    assert shown_as("LUNAR").in_job_file("full moon") == {}
    with pytest.raises(ValueError, match="got: 'LUNAR'"):
        read_schedule(ScheduleFacts("LUNAR", "full moon", "UTC"))


@pytest.mark.parametrize("start", [NOON, NOON + 1, NOON + 999])
@pytest.mark.parametrize("seconds", [1, 30])
def test_a_rate_starts_one_period_on_and_on_a_whole_second(start: int, seconds: int) -> None:
    watermark, first = rate(seconds).start(start)

    assert first is not None
    assert first % 1_000 == 0
    assert seconds <= (first - start) / 1_000 < seconds + 1
    assert rate(seconds).next_after(watermark, first) == first


def test_only_a_cron_that_is_over_is_refused() -> None:
    over = read_schedule(ScheduleFacts("CRON", "0 0 12 1 1 ? 2020", "UTC"))
    past = read_schedule(ScheduleFacts("AT", "2020-01-01T00:00:00Z", "UTC"))

    past.check_new(NOON)
    with pytest.raises(ValueError, match=r"^cron .* never fires again$"):
        over.check_new(NOON)
