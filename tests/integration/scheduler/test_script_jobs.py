"""Jobs with scripts: each change is a version, and the version that was planned is what runs."""

from typing import Any

import pytest

from tests.integration.scheduler.conftest import Seat
from tests.integration.scheduler.dispatch.test_dispatcher import dispatch, queued
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.faults import TRIGGERS
from warren.scheduler.commands.job_file_preview import Change
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.scheduler.node_context import ClaimLimits
from warren.sql.jobs import script_versions
from warren.sql.jobs.script_versions import StoredVersion
from warren.sql.run_status import RunStatus

EACH_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}


def apply(
    cluster: Cluster, source: str, language: str = "shell", remark: str = "", **fields: Any
) -> Change:
    """Apply the job `pack` with a script; return what changed."""
    script = {"script_language": language, "script_source": source, "script_remark": remark}
    dry_run = fields.pop("dry_run", False)
    spec = JobSpec(name="pack", app=APP, **script, **fields)
    return cluster.commands().apply([], [spec], dry_run=dry_run, prune=False)[-1]


def versions(cluster: Cluster) -> list[StoredVersion]:
    """Return the versions of the job `pack`, oldest first, with their sources."""
    job_id = cluster.jobs(name="pack")[0].id

    def read(session: Any) -> list[StoredVersion]:
        listed = script_versions.versions(session, job_id)
        return [script_versions.version(session, job_id, row.id) for row in reversed(listed)]

    return cluster.database.read(read)


def ids(cluster: Cluster) -> list[int]:
    return [row.id for row in versions(cluster)]


@on_memory
class TestVersions:
    def test_new_job_has_one_version_with_remark_and_author(self, cluster: Cluster) -> None:
        change = apply(cluster, "echo 1", remark="first")

        [version] = versions(cluster)
        [job] = cluster.jobs()
        assert (change.action, change.name) == ("create", "demo/pack")
        assert (version.source, version.remark) == ("echo 1", "first")
        assert (version.script_type, version.author) == ("GLUE_SHELL", "test")
        assert (job.script_version, job.script_type) == (version.id, "GLUE_SHELL")

    def test_applying_twice_changes_nothing(self, cluster: Cluster) -> None:
        apply(cluster, "echo 1\r\n", remark="first")

        assert apply(cluster, "echo 1\r\n", remark="first").action == "unchanged"
        assert len(ids(cluster)) == 1

    def test_each_change_of_source_or_language_is_a_version(self, cluster: Cluster) -> None:
        apply(cluster, "print(1)")

        edited = apply(cluster, "print(12)")
        translated = apply(cluster, "print(12)", "python")

        assert edited.details == ("script: shell, 8 bytes -> shell, 9 bytes",)
        assert translated.details == ("script: shell, 9 bytes -> python, 9 bytes",)
        assert [(row.script_type, row.source) for row in versions(cluster)] == [
            ("GLUE_SHELL", "print(1)"),
            ("GLUE_SHELL", "print(12)"),
            ("GLUE_PYTHON", "print(12)"),
        ]

    def test_other_remark_is_given_to_the_same_version(self, cluster: Cluster) -> None:
        apply(cluster, "echo 1", remark="frist")

        change = apply(cluster, "echo 1", remark="first")

        assert change.details == ("script remark: 'frist' -> 'first'",)
        assert [row.remark for row in versions(cluster)] == ["first"]

    def test_dry_run_saves_nothing(self, cluster: Cluster) -> None:
        apply(cluster, "echo 1")

        change = apply(cluster, "echo 12", dry_run=True)

        assert change.action == "update"
        assert [row.source for row in versions(cluster)] == ["echo 1"]

    def test_windows_line_ends_go_but_for_powershell(self, cluster: Cluster) -> None:
        apply(cluster, "\ufeffecho 1\r\n")
        apply(cluster, "echo 1\r\n", "powershell")

        assert [row.source for row in versions(cluster)] == ["echo 1\n", "echo 1\r\n"]

    def test_job_may_go_from_script_to_handler_and_back(self, cluster: Cluster) -> None:
        apply(cluster, "echo 1")

        cluster.job("pack", handler="noop")
        [with_handler] = cluster.jobs()
        apply(cluster, "echo 1")

        assert (with_handler.script_type, with_handler.script_version) == ("BEAN", None)
        [job] = cluster.jobs()
        assert (job.handler, job.script_version) == ("", ids(cluster)[-1])
        assert len(ids(cluster)) == 2

    def test_deleted_job_leaves_no_version(self, cluster: Cluster) -> None:
        apply(cluster, "echo 1")
        job_id = cluster.jobs()[0].id

        cluster.commands().delete("pack")

        assert (
            cluster.database.read(lambda session: script_versions.versions(session, job_id)) == []
        )


class TestPlanned:
    def test_run_names_the_version_of_the_moment_it_was_planned(
        self, cluster: Cluster, still: SchedulerNode
    ) -> None:
        apply(cluster, "echo 1", **EACH_SECOND)
        now_ms = cluster.now_ms()
        still.planner.run_round(now_ms)
        planned = {run.id for run in cluster.runs()}

        apply(cluster, "echo 2", param="new", **EACH_SECOND)
        still.planner.run_round(now_ms + 3_000)

        first, second = ids(cluster)
        assert {run.script_version for run in cluster.runs() if run.id in planned} == {first}
        assert {run.script_version for run in cluster.runs() if run.id not in planned} == {second}
        assert {run.param for run in cluster.runs()} == {"new"}

    def test_planned_runs_go_along_from_handler_to_script_and_back(
        self, cluster: Cluster, still: SchedulerNode
    ) -> None:
        cluster.job("pack", handler="noop", **EACH_SECOND)
        still.planner.run_round(cluster.now_ms())

        apply(cluster, "echo 1", **EACH_SECOND)
        with_script = {(run.handler, run.script_version) for run in cluster.runs()}
        cluster.job("pack", handler="noop", **EACH_SECOND)

        assert with_script == {("", ids(cluster)[0])}
        assert {(run.handler, run.script_version) for run in cluster.runs()} == {("noop", None)}


@on_memory
class TestDispatched:
    def test_trigger_carries_the_planned_version(
        self, cluster: Cluster, still: SchedulerNode, seat: Seat
    ) -> None:
        seat()
        apply(cluster, "echo 1")
        cluster.trigger("pack", "p")
        apply(cluster, "print(2)", "python")
        cluster.trigger("pack", "q")

        dispatch(cluster, still)

        assert [
            (each.param, each.script_language, each.script_source, each.handler)
            for each in queued(still)
        ] == [("p", "shell", "echo 1", ""), ("q", "python", "print(2)", "")]

    def test_trigger_that_is_sent_again_carries_it_too(
        self, cluster: Cluster, still: SchedulerNode, seat: Seat
    ) -> None:
        seat()
        apply(cluster, "echo 1")
        run_id = cluster.trigger("pack")
        lost = cluster.cables[id(still)].loses_messages
        lost.add(TRIGGERS)
        dispatch(cluster, still)
        apply(cluster, "echo 2")

        lost.clear()
        eventually(
            lambda: (
                still.rescuer.run_round(cluster.now_ms())
                and cluster.run(run_id).status == RunStatus.SENT
            ),
        )

        [again] = queued(still)
        assert (again.resent, again.script_source) == (True, "echo 1")

    def test_run_whose_version_is_gone_ends_with_those_words(
        self, cluster: Cluster, still: SchedulerNode, seat: Seat
    ) -> None:
        seat()
        apply(cluster, "echo 1")
        run_id = cluster.trigger("pack")
        cluster.database.write(
            lambda session: script_versions.forget(session, cluster.run(run_id).job_id)
        )

        dispatch(cluster, still)

        run = cluster.run(run_id)
        assert run.status == RunStatus.UNDELIVERED
        assert run.message == "its version of the script is gone"

    @pytest.mark.parametrize(
        "still_options", [{"limits": ClaimLimits(script_characters=150)}], ids=["150-characters"]
    )
    def test_large_scripts_are_sent_in_several_claims(
        self, cluster: Cluster, still: SchedulerNode, seat: Seat
    ) -> None:
        seat()
        apply(cluster, "x" * 100)
        cluster.job("plain", handler="noop")
        run_ids = [cluster.trigger(name) for name in ("pack", "pack", "pack", "plain")]

        still.dispatcher.run_round(cluster.now_ms())
        first = [each.run_id for each in queued(still)]
        dispatch(cluster, still)

        assert first == [run_ids[0], run_ids[1], run_ids[3]]
        assert [each.run_id for each in queued(still)] == [run_ids[2]]


class TestWholeCircle:
    def test_script_runs_in_the_version_that_was_planned(self, cluster: Cluster) -> None:
        apply(cluster, 'echo "first $1 $2/$3 grüße"; exit 3', retries=1)
        first = cluster.trigger("pack", "a b")
        apply(cluster, "import sys; print('second', sys.argv[1:])", "python")
        second = cluster.trigger("pack", "😀")

        cluster.scheduler()
        cluster.executor(processes=True)
        failed, done = cluster.wait_final(first), cluster.wait_final(second)
        eventually(lambda: len(_finals(cluster, first)) == 2)

        assert (failed.status, failed.message) == (RunStatus.FAILED, "exit code 3")
        assert failed.log_tail == "first a b 0/1 grüße\n"
        assert (done.status, done.message) == (RunStatus.SUCCEEDED, "")
        assert done.log_tail == "second ['😀', '0', '1']\n"
        retried = _finals(cluster, first)[-1]
        assert (retried.attempt, retried.script_version) == (1, failed.script_version)
        assert retried.log_tail == failed.log_tail

    def test_longest_script_with_the_longest_param_runs(self, cluster: Cluster) -> None:
        source = "# \t\n" * 130_000 + 'echo "${#1}"'
        apply(cluster, source, param='"' * 65_536)
        run_id = cluster.trigger("pack")

        cluster.scheduler()
        cluster.executor(processes=True)

        run = cluster.wait_final(run_id)
        assert (run.status, run.log_tail) == (RunStatus.SUCCEEDED, "65536\n")


def _finals(cluster: Cluster, origin_id: int) -> list[Any]:
    found = cluster.runs(origin_id=origin_id)
    return [run for run in found if run.status in (RunStatus.FAILED, RunStatus.SUCCEEDED)]
