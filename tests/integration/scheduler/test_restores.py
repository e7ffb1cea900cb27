"""A database that is restored without any further step: nothing old answers for what is new."""

import pytest
from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from warren.scheduler.alarms.events import AlarmTargets, from_text
from warren.scheduler.alarms.message import MessageContext, message
from warren.scheduler.alarms.watches import EpochWatch
from warren.scheduler.completion.completion import Completion
from warren.scheduler.jobs.script_cache import Script, Scripts
from warren.scheduler.membership.roster import Roster
from warren.scheduler.node_context import AppNames
from warren.sql.alarms import incidents
from warren.sql.engine import SeenIds
from warren.sql.epochs import LEFT_OUT, Cause, all_epochs
from warren.sql.ids import RunIds
from warren.sql.models import Alarm, App, Run, ScriptVersion, Sequence
from warren.sql.models.job_tables import FLOW_TYPE
from warren.sql.run_status import RunStatus

RUNS = 20


def restore(cluster: Cluster) -> None:
    """Put the database back to a time when nothing had run, and forget what this process knows."""

    def unit(session: object) -> None:
        session.execute(delete(Run))  # type: ignore[attr-defined]
        session.execute(update(Sequence).values(next_id=1))  # type: ignore[attr-defined]

    cluster.database.write(unit)
    cluster.database.seen_ids = SeenIds()


@on_memory
@pytest.mark.parametrize("is_noticed", [True, False])
def test_after_a_restore_each_run_has_a_result_of_its_own(
    cluster: Cluster, is_noticed: bool
) -> None:
    before = cluster.scheduler()
    cluster.executor(processes=True)
    cluster.job("before", handler="echo", concurrency=4)
    cluster.job("after", handler="echo", concurrency=4)
    old = [cluster.trigger("before", f"old {number}") for number in range(RUNS)]
    for run_id in old:
        assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED
    before.stop()
    cluster.schedulers.remove(before)
    restore(cluster)
    new = {}
    if not is_noticed:
        # Planned before any executor was heard, so with ids that it has in its journal.
        new = {cluster.trigger("after", f"new {n}"): f"new {n}" for n in range(RUNS)}
        assert new.keys() & set(old)

    cluster.scheduler()
    eventually(lambda: cluster.database.read(all_epochs))
    more = cluster.trigger("after", "more")

    for run_id, param in {**new, more: "more"}.items():
        run = cluster.wait_final(run_id)
        assert (run.status, run.message) == (RunStatus.SUCCEEDED, param)
        assert f"param {param}" in (run.log_tail or "")
        assert "old" not in (run.log_tail or "")
    assert more > LEFT_OUT
    [epoch] = cluster.database.read(all_epochs)
    assert epoch.cause == Cause.EXECUTOR


@on_memory
def test_a_database_that_has_gone_back_opens_an_incident_until_somebody_has_seen_it(
    cluster: Cluster,
) -> None:
    cluster.database.begin_epoch(Cause.COUNTER, seen_id=500)
    cluster.scheduler()

    [opened] = eventually(lambda: cluster.database.read(incidents.listing))
    acting(cluster.database, cluster.now_ms, who="ops").incidents.acknowledge(opened.id, note="ok")
    [closed] = cluster.database.read(incidents.listing)

    assert (opened.rule, opened.app, opened.job) == ("database", None, None)
    assert opened.closed_at is None
    assert (closed.id, closed.closed_by, closed.acked_by) == (opened.id, "SEEN", "ops")


@on_memory
def test_each_app_gets_one_alarm_of_a_database_that_has_gone_back(cluster: Cluster) -> None:
    cluster.database.begin_epoch(Cause.RESTORED, told_by="ann")
    due = {"schedule_kind": "CRON", "schedule_value": "0 0 9 * * ?", "enabled": True}
    for name in (APP, "second"):
        cluster.add_app(name)
        cluster.job(f"daily of {name}", app=name, **due)
    targets = AlarmTargets(emails=("ops@example.org",))
    watches = [
        EpochWatch(database=cluster.database, roster=Roster(lambda: 0.0), defaults=targets)
        for _ in range(2)
    ]

    for watch in watches:
        watch.run_round(cluster.now_ms())

    stored = cluster.database.read(lambda session: session.query(Alarm).all())
    said = [message(from_text(alarm.content), MessageContext("UTC")) for alarm in stored]
    assert [each.subject for each in said] == [
        f"[warren] {app}: the database has gone back" for app in (APP, "second")
    ]
    assert "(told by ann)" in said[0].text


@on_memory
def test_what_was_read_by_an_id_is_read_again_once_ids_may_belong_to_others(
    cluster: Cluster,
) -> None:
    database, ids = cluster.database, RunIds(cluster.database)
    scripts, flows = Scripts(turns=lambda: ids.turns), Completion(ids, cluster.now_ms).flows
    apps = AppNames(database)
    database.write(lambda s: s.add(version(1, "GLUE_SHELL", "echo lost")))
    database.write(lambda s: s.add(version(2, FLOW_TYPE, '{"lost": {"job": "a"}}')))

    app_id = apps.id_of(APP)

    def known() -> tuple[Script | None, set[str], str | None]:
        script = database.read(lambda session: scripts.read(session, [1])[1])
        graph = database.read(lambda session: flows.graph(session, 2))
        return script, set(graph.nodes if graph else ()), apps.name_of(app_id)

    assert known() == (Script("shell", "echo lost"), {"lost"}, APP)

    def lose(session: Session) -> None:
        session.execute(delete(ScriptVersion))
        session.add(version(1, "GLUE_SHELL", "echo new"))
        session.add(version(2, FLOW_TYPE, '{"new": {"job": "a"}}'))
        session.execute(update(App).where(App.id == app_id).values(name="new"))

    database.write(lose)
    database.begin_epoch(Cause.RESTORED)

    assert known() == (Script("shell", "echo new"), {"new"}, "new")


def version(version_id: int, script_type: str, source: str) -> ScriptVersion:
    facts = {"job_id": 1, "number": version_id, "remark": ""}
    return ScriptVersion(id=version_id, script_type=script_type, source=source, **facts)
