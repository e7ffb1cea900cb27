"""`--take-over` starts what XXL-JOB ran once its admin is silent; `--runs` brings what is over."""

import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import select, update

from tests.integration.warren.importing.conftest import ImportCase
from tests.support.acting import NamedCommands
from warren.importing.xxl_job.cut_over import CutOver
from warren.importing.xxl_job.sources import LiveSource
from warren.scheduler.audit.integrity_check import audit
from warren.sql.errors import DatabaseUnavailable
from warren.sql.imports.foreign import ForeignDatabase
from warren.sql.jobs import job_links
from warren.sql.models import Job, Run


@pytest.fixture
def case(make_case: Callable[[str], ImportCase]) -> ImportCase:
    made = make_case("3.4.0")
    made.xxl.group()
    return made


def next_minute_ms() -> int:
    return (int(datetime.now(UTC).timestamp()) // 60 + 1) * 60_000


class TestTakeOver:
    def test_what_ran_there_is_started_once(self, case: ImportCase) -> None:
        minutely = {"schedule_conf": "0 * * * * ?", "trigger_next_time": next_minute_ms()}
        case.xxl.job("ran", trigger_status=1, **minutely)
        case.xxl.job("stood", trigger_status=0)

        said = case.run("--take-over")
        again = case.run("--take-over")

        assert [case.job(job_id).is_enabled for job_id in (1, 2)] == [1, 0]
        assert "start     job shop-jobs/ran" in said
        assert (
            "left out  job shop-jobs/ran: it is already started here; if XXL-JOB ran it meanwhile, "
            "it ran in both"
        ) in again

    def test_what_is_given_back_stops_here_and_is_taken_over_again(self, case: ImportCase) -> None:
        minutely = {"schedule_conf": "0 * * * * ?", "trigger_next_time": next_minute_ms()}
        case.xxl.job("ran", trigger_status=1, **minutely)
        case.run("--take-over")
        preview = case.run("--give-back", "--dry-run")
        was_running = case.job(1).is_enabled

        said = case.run("--give-back")

        assert (was_running, case.job(1).is_enabled) == (1, 0)
        assert preview == said.replace("done:", "would be:")
        assert said == "stop      job shop-jobs/ran\ndone: jobs: 1 stop\n"
        assert "and was stopped; --again starts it" in case.run("--take-over")
        case.run("--take-over", "--again")
        assert case.job(1).is_enabled
        assert audit(case.rows.database, since_ms=0, until_ms=2**53, timezone="UTC").is_sound

    @pytest.mark.parametrize(
        "options", [("--wait", "10m"), ("--again",), ("--take-over", "--give-back")]
    )
    def test_options_that_do_not_go_together_are_refused(
        self, case: ImportCase, options: tuple[str, ...]
    ) -> None:
        assert "--take-over" in case.run(*options)

    def open_run(self, case: ImportCase, **values: Any) -> int:
        at = datetime.now(UTC) + timedelta(hours=8) - timedelta(minutes=3)
        given = {"job_group": 1, "job_id": 1, "executor_address": "http://10.0.0.1:9999/"}
        given |= {"trigger_time": at.replace(tzinfo=None, microsecond=0)}
        return case.xxl.add("log", **{**given, "trigger_code": 200, "handle_code": 0, **values})

    def test_what_is_not_over_there_is_named(self, case: ImportCase) -> None:
        case.xxl.job()
        running = self.open_run(case)
        retried = self.open_run(case, handle_code=500, executor_fail_retry_count=2)
        self.open_run(case, handle_code=200)
        self.open_run(case, handle_code=500)
        self.open_run(case, handle_code=500, executor_fail_retry_count=2, alarm_status=2)
        self.open_run(case, trigger_time="2020-01-01 00:00:00")

        said = case.run("--take-over").splitlines()

        assert said[-3].startswith(f"under way  run {running} of job 1 at http://10.0.0.1:9999/, ")
        assert said[-3].endswith(": it is still running; nobody will learn how it ends")
        assert said[-2].startswith(f"to retry   run {retried} of job 1 at ")
        assert said[-1] == "not over in XXL-JOB: 1 under way, 1 to retry"

    def test_take_over_waits_until_nothing_runs_there_and_nobody_changes_anything(
        self, case: ImportCase
    ) -> None:
        minutely = {"schedule_conf": "0 * * * * ?", "trigger_next_time": next_minute_ms()}
        case.xxl.job("ran", trigger_status=1, **minutely)
        run_id = self.open_run(case)

        def end() -> None:
            case.xxl.execute("UPDATE xxl_job_log SET handle_code = 200 WHERE id = %s", (run_id,))
            for _ in range(16):
                case.xxl.execute(
                    "UPDATE xxl_job_info SET trigger_last_time = trigger_last_time + 1"
                )
                time.sleep(0.5)

        admin = threading.Timer(10, end)
        admin.start()
        said = case.run("--take-over", "--wait", "2m")
        admin.join()

        assert "waiting for up to 120 s\nwarning: nothing is running in XXL-JOB" in said
        assert f"run {run_id} of job 1 at" not in said
        assert case.job(1).is_enabled

    def test_runs_that_never_end_there_are_named_once_its_admin_is_stopped(
        self, case: ImportCase
    ) -> None:
        case.xxl.job()
        run_id = self.open_run(case)
        said: list[str] = []

        with closing(ForeignDatabase(case.xxl.url, case.xxl.password)) as database:
            left = CutOver(
                LiveSource(database),
                ZoneInfo("Asia/Shanghai"),
                quiet_seconds=0.5,
                stopped_seconds=1,
                wait_seconds=600,
                report=said.append,
            ).wait()

        assert [run.run_id for run in left] == [run_id]
        assert said[-1].endswith(
            f"so its admin is stopped, and these runs never end there (1): {run_id}"
        )

    def test_a_database_that_refuses_connections_for_a_while_is_asked_again(
        self, case: ImportCase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case.xxl.job()
        failures = [None, DatabaseUnavailable("connection refused")]
        read = LiveSource.activity

        def activity(source: LiveSource) -> object:
            if failures and (failure := failures.pop(0)):
                raise failure
            return read(source)

        monkeypatch.setattr(LiveSource, "activity", activity)

        said = case.run("--take-over", "--wait", "10m")

        assert "connection refused; trying again" in said
        assert not failures

    def test_job_that_moved_to_another_app_there_is_moved_as_it_says(
        self, case: ImportCase
    ) -> None:
        minutely = {"schedule_conf": "0 * * * * ?", "trigger_next_time": next_minute_ms()}
        case.xxl.group("other-jobs", id=2)
        case.xxl.job("parent", id=1, child_jobid="3")
        case.xxl.job("moved", id=2, child_jobid="3", trigger_status=1, **minutely)
        case.xxl.job("child", id=3)
        case.run()
        case.xxl.execute("UPDATE xxl_job_info SET job_group = 2 WHERE id = 2", ())

        said = case.run("--take-over")
        started_in_the_old_app = case.job(2).is_enabled
        NamedCommands(case.rows.database).delete("shop-jobs/moved")
        case.run("--overwrite", "--take-over")

        assert "to move it, delete it here and import with --overwrite" in said
        assert "moved: it is in app other-jobs there, but not here" in said
        assert not started_in_the_old_app
        job = case.job(2)
        assert (case.app(job.app_id).name, job.is_enabled) == ("other-jobs", 1)
        links = case.rows.database.read(lambda session: job_links.children(session, (1, 2)))
        assert links == {1: (3,), 2: (3,)}

    @pytest.mark.parametrize(("watch", "seconds"), [((), 6), (("--watch", "3600"), 3_600)])
    def test_admin_at_work_is_noticed_soon(
        self, case: ImportCase, watch: tuple[str, ...], seconds: int
    ) -> None:
        case.xxl.job("ran", trigger_status=1)
        ended = threading.Event()

        def work() -> None:
            while not ended.wait(0.5):
                case.xxl.execute(
                    "UPDATE xxl_job_info SET trigger_last_time = trigger_last_time + 1"
                )

        admin = threading.Thread(target=work)
        admin.start()
        try:
            said = case.run("--take-over", *watch)
        finally:
            ended.set()
            admin.join()

        assert said == (
            f"error: database {case.xxl.name} changed within {seconds} s: "
            "XXL-JOB's admin is still running; stop it before --take-over, or both start every run"
        )
        assert case.outcomes("--dry-run")["job shop-jobs/ran"] == "create"

    def test_watch_is_for_a_take_over(self, case: ImportCase) -> None:
        assert case.run("--watch", "60").startswith("error: --watch needs --take-over (see: ")
        assert "expected 6 to 3600 seconds, got: '5'" in case.run("--take-over", "--watch", "5")

    def test_dump_cannot_be_taken_over(self, case: ImportCase) -> None:
        said = case.run("--take-over", place="dump.sql")

        assert said.startswith(
            "error: --take-over needs XXL-JOB's database itself, and no --print (see: "
        )


class TestRuns:
    def log(self, case: ImportCase, ago: timedelta, **values: Any) -> int:
        at = datetime.now(UTC) + timedelta(hours=8) - ago
        given = {
            "job_group": 1,
            "job_id": 1,
            "executor_address": "http://10.0.0.1:9999/",
            "executor_handler": "nightlyHandler",
            "trigger_time": at.replace(tzinfo=None, microsecond=0),
            "trigger_code": 200,
            "trigger_msg": "Trigger: <span>Cron</span><br>a &lt; b",
            "handle_time": (at + timedelta(seconds=9)).replace(tzinfo=None, microsecond=0),
            "handle_code": 200,
            "handle_msg": "fine",
        } | values
        return case.xxl.add("log", **given)

    def runs(self, case: ImportCase) -> list[Run]:
        return case.rows.database.read(
            lambda session: list(session.execute(select(Run).order_by(Run.id)).scalars())
        )

    def test_those_that_are_over_arrive_with_their_ids(self, case: ImportCase) -> None:
        case.xxl.job()
        hour = timedelta(hours=1)
        self.log(case, timedelta(days=9))
        ids = [
            self.log(case, 5 * hour),
            self.log(case, 4 * hour, handle_code=502, executor_sharding_param="1/3"),
            self.log(
                case,
                4 * hour,
                handle_code=500,
                executor_sharding_param="2/3",
                handle_msg="stopped:<br>a &lt; b",
            ),
            self.log(case, 3 * hour, trigger_code=500, handle_code=0, handle_time=None),
        ]
        self.log(case, hour, handle_code=0, handle_time=None)
        self.log(case, hour, job_id=99)

        said = case.run("--runs", "3")

        assert "runs: 4 imported; left out: 1 not over, 1 of other jobs" in said
        found = self.runs(case)
        assert [run.id for run in found] == ids
        assert [run.status for run in found] == ["SUCCEEDED", "TIMED_OUT", "FAILED", "UNDELIVERED"]
        first = found[0]
        assert (first.kind, first.job_id, first.message) == ("MANUAL", 1, "fine")
        assert [run.message for run in found[:3]] == ["fine", "fine", "stopped:\na < b"]
        assert first.trigger_message == "Trigger: Cron\na < b"
        assert first.finished_at - first.scheduled_at == 9_000
        assert audit(case.rows.database, since_ms=0, until_ms=2**53, timezone="UTC").is_sound

    def log_as_there(self, case: ImportCase, at_ms: int, zone: str, **values: Any) -> int:
        """Add the run of a job that begun at a time, as JDBC stores it for this zone."""
        at = datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)).replace(tzinfo=None)
        return self.log(case, timedelta(), trigger_time=at, handle_time=at, **values)

    def test_datetimes_in_another_zone_than_the_servers_are_noticed(self, case: ImportCase) -> None:
        hour_ms = int(datetime.now(UTC).timestamp()) // 3600 * 3_600_000
        for number in range(1, 4):
            hourly = {"schedule_conf": "0 0 * * * ?", "trigger_last_time": hour_ms}
            case.xxl.job(f"hourly-{number}", id=number, trigger_status=1, **hourly)
            self.log_as_there(case, hour_ms, "Asia/Shanghai", job_id=number)
            self.log_as_there(case, hour_ms - 3_600_000, "Asia/Shanghai", job_id=number)

        said = case.run("--runs", "3", zone="Europe/Berlin")

        assert "differs   xxl_job_log trigger_time 'Asia/Shanghai': DATETIMEs are in this" in said
        assert {run.scheduled_at for run in self.runs(case)} == {hour_ms, hour_ms - 3_600_000}

    def test_run_in_the_future_stops_the_import_with_the_likely_zone(
        self, case: ImportCase
    ) -> None:
        case.xxl.job()
        self.log_as_there(case, int(time.time() * 1000), "Asia/Shanghai")

        said = case.run("--runs", "3", zone="UTC")
        told = case.run("--runs", "3", "--datetime-timezone", "Asia/Shanghai", zone="UTC")

        assert said.startswith("error: run 1 is in the future: xxl_job_log.trigger_time ")
        assert said.endswith("it is probably Asia/Shanghai")
        assert "runs: 1 imported" in told

    def test_no_run_of_a_child_is_missed_for_those_that_succeeded_there(
        self, case: ImportCase
    ) -> None:
        case.xxl.job("parent", child_jobid="2")
        case.xxl.job("child", id=2)
        case.run()
        yesterday = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=1)
        linked = update(Job).values(update_time=yesterday)
        case.rows.database.write(lambda session: session.execute(linked))
        for job_id in (1, 2):
            self.log(case, timedelta(hours=1), job_id=job_id)

        case.run("--runs", "3")

        assert [run.job_id for run in self.runs(case)] == [1, 2]
        assert audit(case.rows.database, since_ms=0, until_ms=2**53, timezone="UTC").is_sound

    def test_second_time_brings_no_run_twice(self, case: ImportCase) -> None:
        case.xxl.job()
        self.log(case, timedelta(hours=1))
        case.run("--runs", "3")

        said = case.run("--runs", "3")

        assert "runs: 0 imported; left out: 1 already imported" in said
        assert len(self.runs(case)) == 1

    def test_dry_run_counts_them(self, case: ImportCase) -> None:
        case.xxl.job()
        self.log(case, timedelta(hours=1))

        said = case.run("--runs", "3", "--dry-run")

        assert "runs: 1 would be imported" in said
        assert self.runs(case) == []

        case.run("--runs", "3")
        said = case.run("--runs", "3", "--dry-run")

        assert "runs: 0 would be imported; left out: 1 already imported" in said
