"""The date that a run is about: it comes from its due time, and all that follows has it too."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests.integration.scheduler.family import end, tick_in_flight
from tests.integration.scheduler.flow_play import open_run
from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.sql_rows import put
from warren.scheduler.backfills.draft import BackfillRequest
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.commands.commands import Commands
from warren.scheduler.commands.reruns import Outcome, RerunOptions
from warren.scheduler.commands.triggers import Trigger, When
from warren.scheduler.flows.graph import parse
from warren.scheduler.jobs import rules
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts.idempotency import FormKey
from warren.sql.listings import run_search
from warren.sql.listings.run_search import RunSearch
from warren.sql.models import Job, Run
from warren.sql.models.job_tables import Selection
from warren.sql.run_status import Kind, RunStatus

DAY = date(2026, 2, 28)
BEFORE = {"run_date_days": -1}
HOURLY = {"schedule_kind": "FIX_RATE", "schedule_value": "3600", "enabled": True}


@pytest.fixture
def commands(cluster: Cluster) -> Commands:
    return acting(cluster.database, cluster.now_ms, who="test")


def spec(name: str, *children: str, **fields: Any) -> JobSpec:
    facts = {"app": APP, "handler": "noop", "children": children}
    return JobSpec(name=name, **(facts | fields))


def today(cluster: Cluster) -> date:
    return datetime.fromtimestamp(cluster.now_ms() / 1_000, UTC).date()


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1_000)


def job_id(cluster: Cluster, name: str) -> int:
    [row] = cluster.jobs(name=name)
    return row.id


def test_a_scheduled_run_has_the_local_day_of_its_due_time_moved_by_the_rule(
    cluster: Cluster,
) -> None:
    zone = "Pacific/Kiritimati"  # 14 hours ahead of UTC
    every = {"schedule_kind": "FIX_RATE", "schedule_value": "1", "enabled": True}
    cluster.apply(spec("daily", timezone=zone, run_date_days=-2, **every))
    cluster.scheduler()

    [first, *_] = eventually(cluster.runs)

    there = datetime.fromtimestamp(first.scheduled_at / 1_000 + 14 * 3_600, UTC).date()
    assert first.run_date is not None
    assert (there - first.run_date).days == 2


def test_what_follows_a_run_has_its_date(cluster: Cluster, commands: Commands) -> None:
    cluster.apply(
        spec("parent", "child", retries=1, **BEFORE, **HOURLY), spec("child", run_date_months=-3)
    )
    [run_id] = tick_in_flight(cluster, "parent")
    put(cluster.database, [run_id], run_date=DAY)

    end(cluster, run_id, status=RunStatus.FAILED)
    [retry] = cluster.runs(kind=Kind.RETRY)
    put(cluster.database, [retry.id], status=RunStatus.SENT, routed_at=cluster.now_ms())
    end(cluster, retry.id)
    [again], _ = commands.runs.rerun([retry.id], RerunOptions(children=False))

    kinds = {run.kind: run.run_date for run in cluster.runs()}
    assert {kinds[kind] for kind in (Kind.RETRY, Kind.PARENT, Kind.RERUN)} == {DAY}
    assert again


@on_memory
def test_all_shards_of_a_broadcast_have_one_date(cluster: Cluster) -> None:
    cluster.apply(spec("wide", "child", route="SHARDING_BROADCAST"), spec("child"))
    shards = tick_in_flight(cluster, "wide", shards=3)
    put(cluster.database, shards, run_date=DAY)

    for run_id in shards:
        end(cluster, run_id)

    [child] = cluster.runs(kind=Kind.PARENT)
    assert child.run_date == DAY


def test_a_trigger_gives_a_date_or_the_rule_does(cluster: Cluster, commands: Commands) -> None:
    cluster.apply(spec("daily", **BEFORE))
    at = ms("2027-03-01T08:00:00Z")

    given = commands.runs.trigger(job_id(cluster, "daily"), run_date=DAY)
    by_rule = commands.runs.trigger(job_id(cluster, "daily"), when=When(at_ms=at))

    dates = {run.id: run.run_date for run in cluster.runs()}
    assert dates == {given: DAY, by_rule: date(2027, 2, 28)}


@on_memory
def test_a_run_that_is_moved_keeps_only_a_date_that_was_given(
    cluster: Cluster, commands: Commands
) -> None:
    cluster.apply(spec("daily", **BEFORE))
    first, later = (When(at_ms=ms(f"2027-03-0{day}T08:00:00Z")) for day in (1, 5))
    job = job_id(cluster, "daily")
    given = commands.runs.trigger(job, when=first, run_date=DAY)
    by_rule = commands.runs.trigger(job, when=first)

    for run_id in (given, by_rule):
        commands.runs.move(run_id, later)

    dates = {run.id: run.run_date for run in cluster.runs()}
    assert dates == {given: DAY, by_rule: date(2027, 3, 4)}


def test_an_edit_of_the_rule_gives_planned_runs_their_new_date(cluster: Cluster) -> None:
    cluster.apply(spec("daily", **HOURLY))
    [run_id] = tick_in_flight(cluster, "daily", scheduled_at=ms("2027-03-31T08:00:00Z"))
    put(cluster.database, [run_id], status=RunStatus.PLANNED)
    put(cluster.database, [run_id], run_date=date(2027, 3, 31))

    cluster.apply(spec("daily", run_date_months=-1, **HOURLY))

    [run] = cluster.runs(id=run_id)
    assert run.run_date == date(2027, 2, 28)


def test_runs_are_found_by_their_date(cluster: Cluster, commands: Commands) -> None:
    cluster.apply(spec("daily"), spec("other"))
    wanted = [
        commands.runs.trigger(job_id(cluster, name), run_date=DAY) for name in ("daily", "other")
    ]
    commands.runs.trigger(job_id(cluster, "daily"))

    def ids(**fields: Any) -> list[int]:
        chosen = RunSearch(run_date=DAY, **fields)
        return [run.id for run in cluster.database.read(lambda s: run_search.page(s, chosen)).runs]

    assert sorted(ids()) == wanted
    assert ids(job_id=job_id(cluster, "daily")) == wanted[:1]
    assert sorted(ids(statuses=frozenset({RunStatus.PLANNED}))) == wanted


def test_a_handler_and_a_script_are_told_the_date(cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply(
        spec("tells", handler="tells-date"),
        spec("script", handler="", script_language="shell", script_source="echo $WARREN_RUN_DATE"),
    )
    cluster.scheduler()
    cluster.executor(processes=True)
    cluster.wait_online()
    commands = acting(cluster.database, cluster.now_ms, who="test")
    runs = [
        commands.runs.trigger(job_id(cluster, name), run_date=DAY) for name in ("tells", "script")
    ]

    ended = [cluster.wait_final(run_id) for run_id in runs]

    assert [run.status for run in ended] == [RunStatus.SUCCEEDED] * 2
    assert ended[0].result == '"2026-02-28"'
    assert "2026-02-28" in (ended[1].log_tail or "")


@on_memory
def test_a_batch_of_runs_may_have_a_date_each(cluster: Cluster, commands: Commands) -> None:
    cluster.apply(spec("daily"))
    days = [date(2026, 11, number) for number in (1, 2, 3)]

    commands.runs.trigger_all(job_id(cluster, "daily"), [Trigger(run_date=day) for day in days])

    assert [run.run_date for run in cluster.runs()] == days


def test_an_imported_run_without_a_date_is_run_again_without_one(
    cluster: Cluster, commands: Commands
) -> None:
    cluster.apply(spec("daily"))
    [run_id] = tick_in_flight(cluster, "daily")
    end(cluster, run_id, status=RunStatus.FAILED)
    put(cluster.database, [run_id], run_date=None)

    [again], _ = commands.runs.rerun([run_id])

    row = cluster.database.read(lambda session: session.get_one(Run, again))
    assert row.run_date is None


# -- templates of params ------------------------------------------------------------------------

TEMPLATE = "--day {{ run_date }} --month {{ months(run_date, -1) | format('%Y%m') }}"


def test_the_param_of_a_scheduled_run_is_made_of_its_date(cluster: Cluster) -> None:
    every = {"schedule_kind": "FIX_RATE", "schedule_value": "1", "enabled": True}
    cluster.apply(spec("daily", param_template="{{ app }}/{{ job }} {{ run_date }}", **every))
    cluster.scheduler()

    [first, *_] = eventually(cluster.runs)

    assert first.param == f"{APP}/daily {first.run_date}"


def test_a_trigger_with_a_date_makes_its_param_unless_it_has_one(
    cluster: Cluster, commands: Commands
) -> None:
    cluster.apply(spec("daily", param_template=TEMPLATE))
    job = job_id(cluster, "daily")

    made = commands.runs.trigger(job, run_date=DAY)
    given = commands.runs.trigger(job, param="mine", run_date=DAY)

    params = {run.id: run.param for run in cluster.runs()}
    assert params == {made: "--day 2026-02-28 --month 202601", given: "mine"}


def test_a_run_whose_param_cannot_be_made_fails_with_the_reason_and_no_other_does(
    cluster: Cluster,
) -> None:
    every = {"schedule_kind": "FIX_RATE", "schedule_value": "1", "enabled": True}
    cluster.apply(
        spec("good", param_template=TEMPLATE, **every),
        spec("bad", param_template=TEMPLATE, retries=3, alarm_emails=("a@example.com",), **every),
    )
    put_template(cluster, "bad", "{{ run_date + job }}")
    cluster.scheduler()

    good, bad = eventually(
        lambda: (
            all(both := [cluster.runs(job_id=job_id(cluster, name)) for name in ("good", "bad")])
            and both
        )
    )

    assert {run.status for run in bad} == {RunStatus.FAILED}
    assert all("cannot add" in (run.message or "") for run in bad)
    assert {run.attempt for run in bad} == {0}
    assert RunStatus.FAILED not in {run.status for run in good}


@on_memory
def test_a_template_that_raises_fails_due_times_and_refuses_triggers(
    cluster: Cluster, commands: Commands
) -> None:
    every = {"schedule_kind": "FIX_RATE", "schedule_value": "1", "enabled": True}
    cluster.apply(spec("bad", param_template=TEMPLATE, **every))
    put_template(cluster, "bad", r"{{ format(run_date, '\ud800') }}")
    node = cluster.new_scheduler()

    eventually(lambda: node.planner.run_round(cluster.now_ms()) or cluster.runs())
    with pytest.raises(Problem) as refused:
        commands.runs.trigger(job_id(cluster, "bad"))

    why = "the template of its param fails: the text holds half a character: \\ud8"
    assert refused.value.code is Code.PARAM_NOT_MADE
    assert {(run.status, (run.message or "")[: len(why)]) for run in cluster.runs()} == {
        (RunStatus.FAILED, why)
    }


def without_param(cluster: Cluster, *names: str) -> list[int]:
    """Return a run of each job that has failed because the template of its param fails."""
    every = {"schedule_kind": "FIX_RATE", "schedule_value": "1", "enabled": True}
    node = cluster.new_scheduler()
    for name in names:
        cluster.apply(spec(name, param_template=TEMPLATE, **BEFORE, **every))
        put_template(cluster, name, "{{ run_date + job }}")
    eventually(
        lambda: (
            node.planner.run_round(cluster.now_ms())
            or all(cluster.runs(job_id=job_id(cluster, name)) for name in names)
        )
    )
    return [cluster.runs(job_id=job_id(cluster, name))[0].id for name in names]


@on_memory
def test_a_run_that_had_no_param_runs_again_with_one_or_not_at_all(
    cluster: Cluster, commands: Commands
) -> None:
    [run_id] = without_param(cluster, "bad")

    with pytest.raises(Problem) as refused:
        commands.runs.rerun([run_id])
    put_template(cluster, "bad", "{{ run_date }}")
    [again], _ = commands.runs.rerun([run_id])

    assert refused.value.code is Code.PARAM_NOT_MADE
    failed, [rerun] = cluster.run(run_id), cluster.runs(kind="RERUN")
    assert (rerun.id, rerun.run_date, rerun.param) == (again, failed.run_date, str(failed.run_date))


@on_memory
def test_of_many_runs_that_had_no_param_those_run_again_that_can_have_one(
    cluster: Cluster, commands: Commands
) -> None:
    failed = without_param(cluster, "bad", "worse")
    put_template(cluster, "bad", "{{ run_date }}")

    [part] = commands.bulk_runs.again(failed, FormKey(user_id=1, key="k" * 22))

    assert +part.counts == {Outcome.DONE: 1, Outcome.REFUSED: 1}
    assert [problem.code for problem in part.problems] == [Code.PARAM_NOT_MADE]
    [rerun] = cluster.runs(kind="RERUN")
    assert (rerun.rerun_of, rerun.param) == (failed[0], str(cluster.run(failed[0]).run_date))


@on_memory
def test_a_run_without_a_date_does_not_run_again_for_another_one(
    cluster: Cluster, commands: Commands
) -> None:
    ended = CalendarSpec(name="x", until=today(cluster) - timedelta(days=9))
    commands.calendars.apply("x", ended.resolved(today(cluster), even_over=True))
    every = {"schedule_kind": "FIX_RATE", "schedule_value": "1", "enabled": True}
    cluster.apply(spec("daily", run_date_workdays=-1, run_date_calendar="x", **every))
    node = cluster.new_scheduler()
    eventually(lambda: node.planner.run_round(cluster.now_ms()) or cluster.runs())
    failed = cluster.runs()[0]

    with pytest.raises(Problem) as refused:
        commands.runs.rerun([failed.id])

    assert (failed.status, failed.run_date) == (RunStatus.FAILED, None)
    assert (refused.value.code, refused.value.field) == (Code.PARAM_NOT_MADE, "run_date")


@on_memory
def test_a_run_that_fails_while_it_is_planned_is_counted(cluster: Cluster) -> None:
    every = {"schedule_kind": "FIX_RATE", "schedule_value": "1", "enabled": True}
    cluster.apply(spec("bad", param_template=TEMPLATE, **every))
    put_template(cluster, "bad", "{{ run_date + job }}")
    node = cluster.new_scheduler()

    eventually(lambda: node.planner.run_round(cluster.now_ms()) or cluster.runs())

    [(key, number)] = node.context.metrics.take().numbers().items()
    assert (key.label, number) == (RunStatus.FAILED, len(cluster.runs()))


def test_a_fixed_delay_goes_on_after_a_run_whose_param_cannot_be_made(cluster: Cluster) -> None:
    every = {"schedule_kind": "FIX_DELAY", "schedule_value": "1", "enabled": True}
    cluster.apply(spec("bad", param_template=TEMPLATE, **every))
    put_template(cluster, "bad", "{{ run_date + job }}")
    cluster.scheduler()

    eventually(lambda: len(cluster.runs(status=RunStatus.FAILED)) >= 3)

    assert len({run.scheduled_at for run in cluster.runs()}) >= 3


def put_template(cluster: Cluster, job: str, template: str) -> None:
    """Break a template behind the back of the rules."""

    def unit(session: Session) -> None:
        session.get_one(Job, job_id(cluster, job)).param_template = template

    cluster.database.write(unit)


@on_memory
def test_a_child_whose_param_cannot_be_made_fails_and_is_told(cluster: Cluster) -> None:
    cluster.apply(spec("parent", "child"), spec("child", param_template=TEMPLATE))
    put_template(cluster, "child", "{{ job.rows }}")
    [run_id] = tick_in_flight(cluster, "parent")

    tally = end(cluster, run_id)

    [child] = cluster.runs(kind=Kind.PARENT)
    assert tally.planned == [child.id]
    assert child.status == RunStatus.FAILED
    assert "has no part 'rows'" in (child.message or "")


@on_memory
def test_a_child_whose_row_has_a_broken_zone_spoils_no_report_of_its_parent(
    cluster: Cluster,
) -> None:
    cluster.apply(spec("parent", "child"), spec("child", param_template="{{ scheduled_at }}"))

    def unit(session: Session) -> None:
        session.get_one(Job, job_id(cluster, "child")).timezone = "Mars/Olympus"

    cluster.database.write(unit)
    [run_id] = tick_in_flight(cluster, "parent", scheduled_at=ms("2027-03-31T08:00:00Z"))

    end(cluster, run_id)

    [child] = cluster.runs(kind=Kind.PARENT)
    assert child.param == "2027-03-31T08:00:00+00:00"


@on_memory
def test_a_childs_param_is_made_of_its_parents_date(cluster: Cluster) -> None:
    cluster.apply(spec("parent", "child"), spec("child", param_template=TEMPLATE))
    [run_id] = tick_in_flight(cluster, "parent")
    put(cluster.database, [run_id], run_date=DAY)

    end(cluster, run_id)

    [child] = cluster.runs(kind=Kind.PARENT)
    assert child.param == "--day 2026-02-28 --month 202601"


@on_memory
def test_a_rerun_keeps_its_param_and_with_current_settings_makes_it_anew(
    cluster: Cluster, commands: Commands
) -> None:
    cluster.apply(spec("daily", param_template=TEMPLATE))
    [run_id] = tick_in_flight(cluster, "daily")
    put(cluster.database, [run_id], run_date=DAY, param="as it was")
    end(cluster, run_id, status=RunStatus.FAILED)

    [same], _ = commands.runs.rerun([run_id])
    put(cluster.database, [same], status=RunStatus.FAILED)
    [current], _ = commands.runs.rerun([same], RerunOptions(current=True))

    params = {run.id: run.param for run in cluster.runs()}
    assert params[same] == "as it was"
    assert params[current] == "--day 2026-02-28 --month 202601"


@on_memory
def test_a_trigger_whose_param_cannot_be_made_is_refused(
    cluster: Cluster, commands: Commands
) -> None:
    cluster.apply(spec("daily", param_template=TEMPLATE))
    put_template(cluster, "daily", "{{ nothing }}")

    with pytest.raises(Problem) as caught:
        commands.runs.trigger(job_id(cluster, "daily"))

    assert caught.value.code is Code.PARAM_NOT_MADE
    assert "unknown name 'nothing'" in str(caught.value)
    assert cluster.runs() == []


def test_an_edit_makes_the_params_of_planned_runs_anew(cluster: Cluster) -> None:
    cluster.apply(spec("daily", param="old", **HOURLY))
    due = [ms(f"2027-03-31T0{hour}:00:00Z") for hour in (8, 9)]
    for at in due:
        [run_id] = tick_in_flight(cluster, "daily", scheduled_at=at)
        put(cluster.database, [run_id], status=RunStatus.PLANNED)

    cluster.apply(
        spec("daily", param_template="{{ scheduled_at | format('%H') }}", timezone="UTC", **HOURLY)
    )

    assert [run.param for run in cluster.runs(status=RunStatus.PLANNED)] == ["08", "09"]


WORKDAYS = "{{ workdays(run_date, -3) }}"


@on_memory
def test_workdays_have_one_value_whatever_plans_the_run(
    cluster: Cluster, commands: Commands
) -> None:
    day, back = date(2026, 3, 2), "2026-02-25"  # a Monday
    commands.calendars.apply("x", CalendarSpec(name="x", until=date(2030, 1, 1)).resolved(day))
    dated = {"param_template": WORKDAYS, "run_date_calendar": "x"}
    nightly = {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?", "timezone": "UTC"}
    cluster.apply(
        spec("made", "child", **dated, **nightly),
        spec("child", **dated),
        spec("plain", **BEFORE),
        spec("hourly", param="old", run_date_calendar="x", **HOURLY),
        spec(
            "flow",
            handler="",
            flow=parse(
                {
                    "own": {"job": "made"},
                    "named": {"job": "made", "param_template": f"{WORKDAYS} again"},
                    "of_flow": {"job": "plain", "param_template": f"{WORKDAYS} by the flow"},
                    "checked": {
                        "job": "plain",
                        "if": "{{ workdays(run_date, -3) == run_date - 5 }}",
                    },
                }
            ),
            run_date_calendar="x",
        ),
    )
    made, flow = (job_id(cluster, name) for name in ("made", "flow"))
    node = cluster.new_scheduler()
    triggered = commands.runs.trigger(made, run_date=day)
    put(cluster.database, [triggered], status=RunStatus.SENT, routed_at=cluster.now_ms())
    end(cluster, triggered, status=RunStatus.FAILED)
    commands.runs.rerun([triggered], RerunOptions(current=True))
    commands.backfills.make(
        made, BackfillRequest(from_date=day, to_date=day, selection=Selection.ALL)
    )
    node.refill.run_round(cluster.now_ms())
    [backfilled] = cluster.runs(kind=Kind.BACKFILL)
    put(cluster.database, [backfilled.id], status=RunStatus.SENT, routed_at=cluster.now_ms())
    end(cluster, backfilled.id)
    open_run(cluster, commands.runs.trigger(flow, run_date=day))
    [planned] = tick_in_flight(cluster, "hourly", scheduled_at=ms("2026-03-02T08:00:00Z"))
    put(cluster.database, [planned], status=RunStatus.PLANNED)
    cluster.apply(spec("hourly", **dated, **HOURLY))

    of_date = [run for run in cluster.runs(run_date=day) if run.job_id != flow]
    assert {(run.kind, run.param, run.message or "") for run in of_date} == {
        *((kind, back, "") for kind in ("MANUAL", "RERUN", "BACKFILL", "PARENT", "CRON")),
        *(("NODE", param, "") for param in (back, f"{back} again", f"{back} by the flow", "")),
    }


def test_a_template_that_cannot_work_is_refused_when_it_is_saved() -> None:
    cases = [
        ({"param_template": "{{ run_date * 2 }}"}, Code.PARAM_TEMPLATE),
        ({"param_template": "{{ tomorrow }}"}, Code.PARAM_TEMPLATE),
        ({"param_template": "x" * 4_097}, Code.PARAM_TEMPLATE),
        ({"param_template": "{{ run_date }}", "param": "x"}, Code.PARAM_AND_TEMPLATE),
        ({"run_date_days": 3_661}, Code.INTEGER),
        ({"param_template": "{{ run_date }}"}, None),
    ]

    wrong = [
        (fields, codes)
        for fields, code in cases
        if (
            codes := [problem.code for problem in rules.problems(spec("daily", **fields), now_ms=0)]
        )
        != ([code] if code else [])
    ]

    assert not wrong
