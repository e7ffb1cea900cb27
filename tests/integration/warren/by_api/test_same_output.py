"""Short commands print the same, whether a database or an API answers them."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial

from flask import Flask
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from tests.integration.warren.by_api.conftest import Desk, RealClock
from tests.support.api import make_api, make_token
from tests.support.console import add_user
from tests.support.eventually import eventually
from tests.support.stored_rows import Rows
from warren.admin_web.services import ApiLimits
from warren.resources.operation import Scope
from warren.sql.accounts.users import Role
from warren.sql.alarms.alarms import AlarmStatus
from warren.sql.batch import modify
from warren.sql.board import job_states
from warren.sql.models import Alarm, Job, Run

#: What is typed, in order; what stands in braces are ids of the sample. Some are refused: the exit
#: status is compared too.
COMMANDS = [
    "jobs list",
    "jobs list --app reports --json",
    "jobs list --app report",
    "jobs show job",
    "jobs show reports/job --json",
    "jobs show script",
    "jobs show jbo",
    "jobs next job --count 3",
    "jobs next odd",
    "jobs follow-rules --dry-run",
    "jobs follow-rules --yes --json",
    "jobs next child --json",
    "jobs export",
    "jobs export --app reports job",
    "jobs export nothing",
    "jobs check jobs.yaml --set PARAM=1",
    "jobs check jobs.yaml",
    "jobs check jobs.yaml jobs.prod.yaml --set PARAM=1 --set PRAM=2 --handlers handlers.py",
    "jobs check",
    "jobs check --from declared.py",
    "jobs check jobs.yaml --from declared.py --app reports --set PARAM=1",
    "jobs check jobs.yaml --from declared.py --app mails --set PARAM=1 --handlers declared.py",
    "jobs apply jobs.yaml --set PARAM=1 --exit-code",
    "jobs apply jobs.yaml jobs.prod.yaml --values values.yaml --dry-run --json",
    "jobs apply jobs.yaml --values values.yaml",
    "jobs apply jobs.yaml --values values.yaml --exit-code",
    "jobs apply jobs.yaml jobs.prod.yaml --values values.yaml --exit-code",
    "jobs apply gone.yaml",
    "jobs apply wrong.yaml",
    "jobs apply",
    "jobs apply jobs.yaml --app reports",
    "jobs apply jobs.yaml --from declared.py",
    "jobs apply --from declared.py",
    "jobs apply --from declared.py --app nothing",
    "jobs apply --from declared.py --app reports",
    "jobs apply --from misdeclared.py --app reports",
    "jobs apply --from declared.py --app reports --take-over --exit-code",
    "jobs apply --from declared.py --app reports --take-over --json",
    "jobs apply --from declared.py --app reports --exit-code",
    "jobs apply jobs.yaml --values values.yaml",
    "jobs apply jobs.yaml --values values.yaml --take-over",
    "jobs apply --from handlers.py --prune",
    "jobs show declared",
    "jobs export --from declared.py --app reports",
    "jobs export new --from declared.py --app reports",
    "jobs start new other",
    "jobs start new nothing",
    "jobs stop new",
    "jobs stop new",
    "jobs mute new --until 2020-01-01",
    "jobs mute new --for 4h --until 2026-12-01",
    "jobs mute new",
    "jobs mute new --until 2090-01-01",
    "jobs mute nothing --for 4h",
    "jobs unmute new",
    "jobs trigger new --in 90m",
    "jobs trigger new --param 1 --json",
    "jobs trigger new --at 2020-01-01",
    "jobs trigger new --run-date 2026-01-30",
    "jobs trigger new --run-date yesterday",
    "jobs trigger new --address nowhere",
    "jobs trigger nothing",
    "jobs delete other",
    "limits apply warehouse --at-once 3",
    "limits apply partner-api --rate 60 --per 1m",
    "limits apply partner-api --rate 60",
    "calendars list",
    "calendars list --json",
    "calendars apply --name de --from holidays:DE --dry-run",
    "calendars apply --name de --from holidays:XX",
    "calendars apply --name de --from holidays:DE --yes",
    "calendars show de --year 2026",
    "calendars show cn",
    "limits list",
    "limits list --json",
    "limits show warehouse",
    "limits show warehouse --json",
    "limits show warehous",
    "limits delete partner-api",
    "limits delete partner-api",
    "queue",
    "queue --app nothing",
    "runs list",
    "runs list --json --status FAILED",
    "runs list --tick {run_id}",
    "runs list --since 5d --app reports --job job",
    "runs list --since soon",
    "runs list --job nothing",
    "runs list --run-date 2026-01-30",
    "runs list --run-date 2026-01-30 --tick {run_id}",
    "runs list --run-date 2026-01-29 --json",
    "runs list --run-date 20260130",
    "runs list --skips --run-date 2026-01-30",
    "runs list --skips",
    "runs list --skips --job job --json",
    "runs list --unresolved",
    "runs show {run_id}",
    "runs show {run_id} --json",
    "runs show 999999",
    "runs rerun {run_id} --no-children",
    "runs rerun 999999",
    "runs rerun",
    "runs rerun {run_id} --app reports",
    "runs rerun --job nothing --yes",
    "runs rerun --status RUNNING",
    "runs rerun --unresolved --since 30d --newest --dry-run",
    "runs rerun --app reports --status SUCCEEDED --dry-run --json",
    "runs rerun --job job --since 30d --yes --json",
    "runs move {run_id} --in 5m",
    "runs cancel {run_id}",
    "runs kill {run_id}",
    "runs clear --older-than 30d --dry-run",
    "runs clear --older-than 30d",
    "backfills list",
    "backfills list --job job --going --json",
    "backfills show {backfill_id}",
    "backfills show {backfill_id} --json",
    "backfills show 999999",
    "runs list --backfill {backfill_id}",
    "runs list --backfill 999999",
    "runs list --outside-flows",
    "runs list --flow-run 999999",
    "backfills resume {backfill_id}",
    "backfills pause {backfill_id}",
    "backfills cancel {backfill_id} --kill",
    "backfills pause {backfill_id}",
    "backfill new --from 2020-01-01 --to 2020-01-03 --dates --at-once 2 --dry-run",
    "backfill new --from 2020-01-01 --to 2020-01-03 --dates --at-once 2 --json",
    "backfill new --from 2020-01-03 --to 2020-01-01",
    "backfill nothing --from 2020-01-03 --to 2020-01-03",
    "executors list",
    "executors list --json",
    "executors show executor",
    "executors show reports/executor --json",
    "executors show nowhere",
    "executors drain executor",
    "schedulers list",
    "schedulers list --json",
    "pause --app reports --reason upgrade --for 2h",
    "pause --app reprots",
    "pause --no-until",
    "resume --app reports",
    "resume",
    "report --since 50d",
    "report --json",
    "alarms list --all",
    "alarms list --json",
    "alarms test",
    "alarms test --job job --email nobody",
    "alarms resend --job job",
    "alarms dismiss",
    "incidents list",
    "incidents list --all --json",
    "incidents show {incident_id}",
    "incidents show 99",
    "incidents ack {incident_id} --note seen --for 4h",
    "apps add mails",
    "apps add mails",
]


def test_every_command_prints_the_same_on_a_database_and_by_an_api(desk: Desk) -> None:
    for command in COMMANDS:
        assert desk.there(command) == desk.here(command), command


def test_problems_of_declared_jobs_name_their_handlers(desk: Desk) -> None:
    for way in (desk.here, desk.there):
        [line] = way("jobs apply --from misdeclared.py --app reports").errors

        assert line.startswith("misdeclared.py:6: handler 'never': ")


def test_a_job_in_a_file_and_in_code_is_refused_by_a_check(desk: Desk) -> None:
    for way in (desk.here, desk.there):
        [line] = way("jobs check jobs.yaml --from declared.py --app reports --set PARAM=1").errors

        words = "job reports/new is in jobs.yaml too; declare it in one place"
        assert line == f"declared.py:2: handler 'new': {words}"


def test_a_declared_text_stands_for_itself(desk: Desk) -> None:
    for way in (desk.here, desk.there):
        way("jobs apply --from declared.py --app reports")

        assert json.loads(way("jobs show new --json").out)["param"] == "${PARAM}"


def test_a_run_of_a_date_is_triggered_and_listed_by_it(desk: Desk) -> None:
    for way in (desk.here, desk.there):
        way("jobs apply jobs.yaml --values values.yaml")
        way("jobs trigger new --run-date 2026-01-30")
        way("jobs trigger new --run-date 2026-01-29")

        listed = way("runs list --run-date 2026-01-30 --json").out.splitlines()

        assert [json.loads(line)["run_date"] for line in listed] == ["2026-01-30"]
        assert "run date  2026-01-30" in way("runs show 4").out


def test_jobs_are_muted_until_a_time_and_for_a_reason(desk: Desk) -> None:
    for way, rows in ((desk.here, desk.rows), (desk.there, desk.by_api)):
        job_id = rows.job("sync")

        assert way("jobs mute sync --for 4h --why known").out.startswith("sync muted until 20")
        muted = rows.database.read(lambda session, id_=job_id: job_states.mute_of(session, id_))
        noted = way("jobs mute sync script --for 1d --keep-alarms").out
        ended = way("jobs unmute sync").out

        assert muted is not None
        assert (muted.reason, muted.silences) == ("known", 1)
        assert noted.splitlines()[0].startswith("sync acknowledged until 20")
        assert noted.splitlines()[1].startswith("script acknowledged until 20")
        assert ended == "sync is not muted\n"
        assert (
            rows.database.read(lambda session, id_=job_id: job_states.mute_of(session, id_)) is None
        )


def rerun_of(session: Session, run_ids: list[int]) -> list[int | None]:
    repeated = select(Run.rerun_of).where(Run.id.in_(run_ids)).order_by(Run.id)
    return list(session.execute(repeated).scalars())


def test_a_filter_finds_the_runs_to_repeat_and_lists_them_first(desk: Desk) -> None:
    for way, rows in ((desk.here, desk.rows), (desk.there, desk.by_api)):
        job_id = rows.job("sync")
        now_ms = RealClock().now_ms()
        failed = [rows.run(job_id, now_ms - n * 1_000, status="FAILED") for n in (3, 2)]
        rows.run(rows.job("other"), now_ms - 1_000, status="FAILED")

        ahead = way("runs rerun --job sync --dry-run --json").out
        newest = way("runs rerun --job sync --newest --dry-run")
        unasked = way("runs rerun --job sync")
        done = way("runs rerun --job sync --yes --json")
        again = way("runs rerun --job sync --status FAILED --yes")

        assert json.loads(ahead) == {"run_ids": failed, "left_out": {}}
        assert newest.out == f"{failed[1]}\nto repeat: 1\n"
        assert unasked.status == 1
        planned = [json.loads(line)["id"] for line in done.out.splitlines()]
        assert rows.database.read(lambda s, ids=planned: rerun_of(s, ids)) == failed
        assert again.out == "to repeat: 0; left out: 2 OPEN\n"


def test_a_run_is_waited_for_and_its_end_is_told(desk: Desk) -> None:
    for way, rows in ((desk.here, desk.rows), (desk.there, desk.by_api)):
        way("jobs apply jobs.yaml --values values.yaml")
        ended = threading.Thread(target=_end, args=(rows,))
        ended.start()

        done = way("jobs trigger new --wait")

        ended.join()
        assert (done.status, done.out) == (1, "run 4 FAILED: out of paper\n")


def test_a_test_alarm_is_waited_for_and_its_outcome_is_told(
    desk: Desk, served: Callable[[Flask], str]
) -> None:
    limits = ApiLimits(test_seconds=0)  # the command has to ask again
    url = served(make_api(desk.by_api.database, RealClock(), limits=limits))
    for way, rows in (
        (desk.here, desk.rows),
        (partial(desk.there, WARREN_API_URL=url), desk.by_api),
    ):
        rows.scheduler("mailer", RealClock().now_ms(), mails=True)
        told = threading.Thread(target=_tell, args=(rows,))
        told.start()

        done = way("alarms test --email ops@example.com")

        told.join()
        assert (done.status, done.out) == (0, "ops@example.com: delivered; 250 OK\n")


def _tell(rows: Rows) -> None:
    """Say of the test alarm that it was sent, as soon as it is stored."""
    ready = update(Alarm).where(Alarm.status == AlarmStatus.READY)
    sent = ready.values(status=AlarmStatus.SENT, answer="250 OK")
    eventually(lambda: rows.database.write(lambda session: modify(session, sent)) == 1)


def _end(rows: Rows) -> None:
    """End the run that is triggered, as soon as it is."""
    eventually(lambda: rows.database.read(lambda session: session.get(Run, 4)) is not None)
    rows.set_run(4, status="FAILED", message="out of paper", finished_at=1)


def test_the_end_of_a_log_is_printed_without_any_executor(desk: Desk) -> None:
    assert desk.here("runs log {run_id}").out == desk.there("runs log {run_id}").out == "log-tail\n"
    assert desk.there("runs log 999").errors == ("no run with id 999",)


def test_other_apps_do_not_exist_for_a_token(desk: Desk) -> None:
    desk.by_api.run(desk.by_api.job("hidden", app="mails"), 1, app="mails")
    add_user(desk.by_api.database, "olga", Role.OPERATOR, "reports")
    token = make_token(desk.by_api.database, desk.clock, "olga")

    for command in ("jobs list", "jobs export", "runs list", "executors list", "runs list --skips"):
        done = desk.there(command, WARREN_API_TOKEN=token)
        assert done.status == 0, done
        assert "hidden" not in done.out
    refused = {
        command: desk.there(command, WARREN_API_TOKEN=token).errors
        for command in ("jobs show hidden", "jobs stop mails/hidden", "jobs list --app mails")
    }
    assert refused == {
        "jobs show hidden": ("no job named 'hidden'",),
        "jobs stop mails/hidden": ("no job named 'mails/hidden'",),
        "jobs list --app mails": ("no app named 'mails'",),
    }
    [line] = desk.there("apps add other", WARREN_API_TOKEN=token).errors
    assert line.endswith("the token has no scope admin")


def test_a_token_that_may_not_read_drains_an_executor_of_a_named_app(desk: Desk) -> None:
    token = make_token(desk.by_api.database, desk.clock, scopes=[Scope.OPERATE])

    done = desk.there("executors drain reports/executor", WARREN_API_TOKEN=token)

    assert done.out == "reports/executor is draining\n", done


def test_secrets_are_shown_to_those_who_may_change_them(desk: Desk) -> None:
    url = "https://hooks.example.com/T0ken"
    desk.by_api.database.write(
        lambda session: session.execute(
            update(Job).where(Job.id == desk.ids["job_id"]).values(alarm_webhook=url)
        )
    )
    reader = make_token(desk.by_api.database, desk.clock, scopes=[Scope.READ])

    assert url in desk.there("jobs show job --json").out
    done = desk.there("jobs show job --json", WARREN_API_TOKEN=reader).out
    assert "hooks.example.com" in done
    assert "T0ken" not in done


def test_the_base_installation_is_enough(desk: Desk) -> None:
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.partition('.')[0] in {'sqlalchemy', 'flask', 'yaml', 'croniter'}:\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from warren.cli import main\n"
        "main()\n"
    )
    for command in (
        "jobs list",
        "jobs check jobs.yaml --set PARAM=1",
        "jobs apply --from declared.py --app reports",
        "runs list",
        "executors list",
        "pause",
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *command.split()],
            env=os.environ | desk.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
