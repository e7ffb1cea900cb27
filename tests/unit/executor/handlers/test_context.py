"""What a handler is given works outside of a job process too, in its users' own tests."""

import re
from datetime import UTC, datetime

import pytest

from warren.executor.handlers.context import JobContext, JobFailed, JobStopped, log_line


@pytest.fixture
def context() -> JobContext:
    return JobContext(
        job_id=1,
        run_id=2,
        attempt=0,
        kind="CRON",
        param="p",
        shard_index=0,
        shard_total=1,
        scheduled_at=datetime(2026, 11, 20, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("text", "args", "shown"),
    [
        ("plain", (), "plain"),
        ("100%", (), "100%"),
        ("%s and %d", ("a", 2), "a and 2"),
        ("%(name)s", ({"name": "n"},), "n"),
        ("%d", ("no number",), "%d ('no number',)"),
        ("too few %s %s", (1,), "too few %s %s (1,)"),
        ("too many", (1,), "too many (1,)"),
    ],
)
def test_log_writes_a_line_whatever_it_is_given(
    context: JobContext,
    capsys: pytest.CaptureFixture[str],
    text: str,
    args: tuple[object, ...],
    shown: str,
) -> None:
    context.log(text, *args)

    line = capsys.readouterr().out
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d INFO .*\n", line)
    assert line.endswith(f" INFO {shown}\n")


def test_fail_raises_its_words(context: JobContext) -> None:
    with pytest.raises(JobFailed, match=r"^no rows$"):
        context.fail("no rows")


def test_stop_passes_except_exception() -> None:
    assert not issubclass(JobStopped, Exception)
    assert issubclass(JobFailed, Exception)


def test_milliseconds_of_a_line_have_three_digits() -> None:
    assert re.fullmatch(
        r"\.004[+-]\d\d:\d\d ERROR x\n", log_line(1_700_000_000.0049, "ERROR", "x")[19:]
    )


def test_context_cannot_be_changed(context: JobContext) -> None:
    with pytest.raises(AttributeError):
        context.param = "other"  # type: ignore[misc]
