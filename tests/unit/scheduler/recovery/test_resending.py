"""Which routed runs get their triggers again, and what those say."""

import pytest

from tests.support.trigger_rows import job, run
from warren.scheduler.jobs.script_cache import Script
from warren.scheduler.recovery.rescuer import TriggerParts
from warren.scheduler.triggers import routed_trigger


def test_what_is_sent_again_says_so_and_goes_to_the_same_boot() -> None:
    again = TriggerParts({2: job()}, {1: "demo"}, {}).trigger(run())

    assert again is not None
    assert again.trigger.resent
    assert (again.address, again.trigger.boot_id, again.trigger.routed_at_ms) == ("one", "b1", 55)


def test_script_goes_along_also_when_it_is_sent_again() -> None:
    script = Script("python", "print(1)")
    scripted = run(script_version=12, handler="")

    first = routed_trigger(
        scripted, job(), app="demo", address="one", boot_id="b1", routed_at=55, script=script
    )
    again = TriggerParts({2: job()}, {1: "demo"}, {12: script}).trigger(scripted)

    assert again is not None
    for trigger in (first.trigger, again.trigger):
        assert (trigger.script_language, trigger.script_source) == ("python", "print(1)")
        assert trigger.handler == ""


@pytest.mark.parametrize("scripts", [{}, {12: None}])
def test_run_whose_script_is_gone_is_not_sent_again(scripts: dict[int, None]) -> None:
    parts = TriggerParts({2: job()}, {1: "demo"}, scripts)

    assert parts.trigger(run(script_version=12)) is None


def test_runs_of_deleted_or_broken_jobs_are_not_sent_again() -> None:
    rows = [run(), run(id=8, job_id=3), run(id=9, job_id=4)]
    jobs = {2: job(), 3: job(block="NONSENSE")}

    again = [TriggerParts(jobs, {1: "demo"}, {}).trigger(row) for row in rows]

    assert [item and item.trigger.run_id for item in again] == [7, None, None]
