"""A run's way as it is drawn: which steps are done, how long each took."""

from types import SimpleNamespace
from typing import Any

from warren.admin_web.pages.run_pages import Stage, shares, steps

NOW = 1_800_000_000_000


def run(status: str, **times: Any) -> Any:
    given = {"routed_at": None, "sent_at": None, "started_at": None, "finished_at": None}
    return SimpleNamespace(status=status, **({"due_at": NOW - 10_000} | given | times))


def stages(found: Any) -> list[str]:
    return [step.stage.value for step in steps(found, NOW)]


def test_before_it_is_due_nothing_is_done() -> None:
    found = run("PLANNED", due_at=NOW + 5_000)

    assert stages(found) == ["now", "ahead", "ahead", "ahead", "ahead"]
    assert steps(found, NOW)[0].at_ms == NOW + 5_000
    assert shares(found, NOW) is None


def test_an_open_run_waits_at_its_next_step() -> None:
    found = run("ROUTED", routed_at=NOW - 9_000)

    assert stages(found) == ["done", "done", "now", "ahead", "ahead"]
    assert [step.gap_ms for step in steps(found, NOW)] == [None, 1_000, None, None, None]


def test_what_was_overtaken_is_skipped_and_the_gap_goes_on_from_the_page_cache() -> None:
    found = run("RUNNING", routed_at=NOW - 9_000, started_at=NOW - 8_500)

    assert stages(found) == ["done", "done", "skipped", "done", "now"]
    assert steps(found, NOW)[3].gap_ms == 500


def test_a_confirm_after_the_start_is_no_negative_time() -> None:
    found = run(
        "SUCCEEDED",
        routed_at=NOW - 9_000,
        sent_at=NOW - 8_000,
        started_at=NOW - 8_500,
        finished_at=NOW - 7_000,
    )

    assert [step.gap_ms for step in steps(found, NOW)] == [None, 1_000, 1_000, 0, 1_500]


def test_what_never_came_is_skipped_once_it_is_over() -> None:
    assert stages(run("CANCELLED", finished_at=NOW)) == [
        Stage.DONE,
        Stage.SKIPPED,
        Stage.SKIPPED,
        Stage.SKIPPED,
        Stage.DONE,
    ]


def test_time_is_shared_between_waiting_and_working() -> None:
    done = run("SUCCEEDED", started_at=NOW - 9_000, finished_at=NOW - 6_000)
    at_work = run("RUNNING", started_at=NOW - 9_000)
    never = run("UNDELIVERED", finished_at=NOW)

    found = [shares(one, NOW) for one in (done, at_work, never)]

    assert [(one.waited_ms, one.worked_ms) for one in found if one] == [
        (1_000, 3_000),
        (1_000, 9_000),
        (10_000, 0),
    ]


def test_clocks_that_differ_make_no_negative_share() -> None:
    found = shares(run("SUCCEEDED", started_at=NOW - 11_000, finished_at=NOW - 9_000), NOW)

    assert found is not None
    assert (found.waited_ms, found.worked_ms, found.total_ms) == (0, 1_000, 1_000)


def test_steps_stay_in_order_although_clocks_differ_by_a_moment() -> None:
    found = run("RUNNING", routed_at=NOW - 9_000, sent_at=NOW - 8_990, started_at=NOW - 8_993)

    assert [step.at_ms for step in steps(found, NOW)[2:4]] == [NOW - 8_990] * 2
    assert steps(found, NOW)[3].gap_ms == 0
