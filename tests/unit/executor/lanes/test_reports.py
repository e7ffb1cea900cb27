from warren.broker.messages import LOG_TAIL_BYTES, MESSAGE_LIMIT, Finished, Outcome, Trigger
from warren.executor.lanes import reporting

TRIGGER = Trigger(
    run_id=1, job_id=2, boot_id="boot-1", kind="CRON", handler="demo.echo", scheduled_at_ms=0
)


def told(**values: object) -> Finished:
    facts = {"outcome": Outcome.SUCCEEDED, "started_at_ms": 5, "finished_at_ms": 6}
    return Finished(run_id=1, boot_id="whatever", **(facts | values))


def test_report_carries_the_boot_of_its_trigger_and_the_schedulers_time() -> None:
    report = reporting.stamped(told(), TRIGGER, started_at_ms=100, now_ms=200)

    assert (report.boot_id, report.started_at_ms, report.finished_at_ms) == ("boot-1", 100, 200)


def test_run_without_a_process_has_no_start() -> None:
    report = reporting.stamped(told(started_at_ms=0), TRIGGER, started_at_ms=100, now_ms=200)

    assert report.started_at_ms == 0


def test_message_at_the_limit_is_whole_and_one_over_it_is_cut_with_a_mark() -> None:
    whole = reporting.end_of(TRIGGER, Outcome.FAILED, "x" * MESSAGE_LIMIT, 1).message
    cut = reporting.end_of(TRIGGER, Outcome.FAILED, "x" * (MESSAGE_LIMIT + 1), 1).message

    assert whole == "x" * MESSAGE_LIMIT
    assert len(cut) == MESSAGE_LIMIT
    assert cut.endswith("x\n… [cut, 50,001 characters]")


def test_log_tail_keeps_its_end() -> None:
    report = reporting.stamped(told(log_tail="a" * LOG_TAIL_BYTES + "end"), TRIGGER, 1, 2)

    assert len(report.log_tail) == LOG_TAIL_BYTES
    assert report.log_tail.endswith("end")


def test_given_back_run_names_its_boot() -> None:
    report = reporting.not_started(TRIGGER, "expired")

    assert (report.run_id, report.boot_id, report.reason) == (1, "boot-1", "expired")
