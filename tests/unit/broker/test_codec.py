"""Catalogues are cut until they fit into a message, never refused."""

import re
from contextlib import suppress

import pytest

from tests.support.bad_messages import BAD_BODIES, DEEP_BODIES
from warren.broker.codec import (
    BODY_LIMIT,
    CATALOGUE_BYTES,
    EncodedCatalogue,
    catalogue_of,
    decode,
    encode,
)
from warren.broker.errors import Malformed
from warren.broker.messages import (
    ABOUT_LIMIT,
    HANDLER_LIMIT,
    NUMBER_LIMIT,
    Callback,
    Catalogue,
    Finished,
    HandlerFacts,
    Heartbeat,
    IdleBeatAnswer,
    Kill,
    Load,
    NotStarted,
    Outcome,
    Started,
    ToExecutor,
    ToScheduler,
    Trigger,
    Welcome,
)

TRIGGER = Trigger(
    run_id=7, job_id=3, boot_id="b1", kind="CRON", handler="h", scheduled_at_ms=1_700_000_000_000
)
CALLBACK = Callback(
    app="app1",
    address="host-1",
    boot_id="b1",
    reports=(
        Started(run_id=1, boot_id="b0", started_at_ms=5),
        Finished(run_id=1, boot_id="b0", outcome=Outcome.FAILED, finished_at_ms=6, message="ü\0"),
        NotStarted(run_id=2, boot_id="b1", reason="expired"),
    ),
)


@pytest.mark.parametrize(
    "message",
    [
        TRIGGER,
        CALLBACK,
        Welcome(boot_id="b1", now_ms=1),
        Heartbeat(
            app="app1",
            address="h:1",
            boot_id="b1",
            started_at_ms=1,
            load=Load(cpu_percent=12.5, slots=4),
            catalogue="0" * 32,
        ),
        IdleBeatAnswer(
            question_id="q", address="h", boot_id="b", busy_jobs={4: "runs"}, free_slots=1
        ),
        Kill(run_id=NUMBER_LIMIT, reason=""),
    ],
)
def test_message_comes_back_as_it_went(message: ToExecutor | ToScheduler) -> None:
    body = encode(message)

    assert decode(body, ToExecutor | ToScheduler) == message


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("cpu_percent", ["0", "100", "99.95"], ["-0.1", "100.1", "1e300", "null"]),
        ("memory_percent", ["0", "100", "99.95"], ["-0.1", "100.1", "1e300", "null"]),
        ("slots", ["0", "1000"], ["-1", "1000001", "9007199254740991"]),
        ("running", ["0", "1000"], ["-1", "1000001", "9007199254740991"]),
        ("waiting", ["0", "100000"], ["-1", "1000001", "9007199254740991"]),
    ],
)
def test_load_that_no_executor_has_is_malformed(
    field: str, good: list[str], bad: list[str]
) -> None:
    beat = Heartbeat(app="app1", address="h:1", boot_id="b1", started_at_ms=1, load=Load())

    def body(value: str) -> bytes:
        load = f'"load":{{"{field}":{value}}}'
        return re.sub(rb'"load":\{[^}]*\}', load.encode(), encode(beat))

    for value in good:
        assert decode(body(value), Heartbeat).load == Load(**{field: float(value)})  # type: ignore[arg-type]
    for value in bad:
        with pytest.raises(Malformed):
            decode(body(value), Heartbeat)


def test_unknown_field_of_a_later_version_is_passed_over() -> None:
    body = encode(Kill(run_id=1, reason="r"))[:-1] + b',"tomorrow":{"a":[1]}}'

    assert decode(body, Kill) == Kill(run_id=1, reason="r")


@pytest.mark.parametrize("name", BAD_BODIES)
def test_bad_body_is_malformed(name: str) -> None:
    with pytest.raises(Malformed):
        decode(BAD_BODIES[name], ToExecutor | ToScheduler)


@pytest.mark.parametrize("name", DEEP_BODIES)
def test_deep_nesting_in_an_unknown_field_does_no_harm(name: str) -> None:
    with suppress(Malformed):
        assert decode(DEEP_BODIES[name], Kill) == Kill(run_id=1, reason="")

    assert decode(encode(Kill(run_id=2, reason="")), Kill).run_id == 2


def test_message_of_another_kind_is_malformed() -> None:
    with pytest.raises(Malformed, match="Kill"):
        decode(encode(Kill(run_id=1, reason="")), Trigger | Welcome)


def test_body_at_the_limit_passes_and_one_over_does_not() -> None:
    room = BODY_LIMIT - len(encode(Kill(run_id=1, reason="")))

    assert len(encode(Kill(run_id=1, reason="x" * room))) == BODY_LIMIT
    with pytest.raises(Malformed, match="1000001"):
        encode(Kill(run_id=1, reason="x" * (room + 1)))


def test_text_that_is_no_unicode_cannot_be_encoded() -> None:
    with pytest.raises(Malformed, match="Kill"):
        encode(Kill(run_id=1, reason="\ud800"))


def handlers(count: int, *, width: int = 40) -> tuple[HandlerFacts, ...]:
    return tuple(
        HandlerFacts(name=f"h{n}".ljust(width, "x"), about="a" * ABOUT_LIMIT, module="m", line=n)
        for n in range(count)
    )


def test_small_catalogue_is_told_whole() -> None:
    whole = Catalogue(handlers=handlers(3), languages=("shell",), code_version="v1")

    assert catalogue_of(EncodedCatalogue(whole).contents) == whole
    assert EncodedCatalogue(whole).fingerprint == EncodedCatalogue(whole).fingerprint
    assert (
        EncodedCatalogue(whole).fingerprint
        != EncodedCatalogue(Catalogue(handlers=handlers(2))).fingerprint
    )


def test_ten_thousand_handlers_keep_their_names() -> None:
    told = catalogue_of(EncodedCatalogue(Catalogue(handlers=handlers(HANDLER_LIMIT))).contents)

    assert len(told.handlers) == HANDLER_LIMIT
    assert not told.has_more
    assert len(EncodedCatalogue(told).contents) <= CATALOGUE_BYTES


def test_more_than_fit_say_so() -> None:
    many = catalogue_of(EncodedCatalogue(Catalogue(handlers=handlers(HANDLER_LIMIT + 1))).contents)
    long = catalogue_of(
        EncodedCatalogue(Catalogue(handlers=handlers(HANDLER_LIMIT, width=255))).contents
    )

    assert (len(many.handlers), many.has_more) == (HANDLER_LIMIT, True)
    assert (len(long.handlers), long.has_more) == (HANDLER_LIMIT // 4, True)
