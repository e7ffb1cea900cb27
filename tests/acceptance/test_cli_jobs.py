"""`warren jobs …` and its neighbours as a user types them, on SQLite and without any service."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tests.support.schemas import SQLiteSchema

JOBS = """\
apps:
  - {name: reports, title: Reports}
jobs:
  - name: nightly
    app: reports
    schedule: {cron: "0 0 2 * * ?", timezone: Asia/Shanghai}
    handler: report.daily
    enabled: true
  - {name: often, app: reports, schedule: {every: 3600}, handler: often, enabled: true}
  - {name: manual, app: reports, handler: by.hand}
"""


@pytest.fixture
def desk(tmp_path: Path, sqlite_schema: SQLiteSchema) -> Desk:
    return Desk(tmp_path, sqlite_schema)


@pytest.fixture
def applied(desk: Desk) -> Desk:
    desk.warren("jobs", "apply", desk.file(JOBS))
    return desk


def test_file_is_applied_once_and_again_without_effect(desk: Desk) -> None:
    name = desk.file(JOBS)

    dry = desk.warren("jobs", "apply", name, "--dry-run")
    first = desk.warren("jobs", "apply", name)
    second = desk.warren("jobs", "apply", name)

    assert "would create job reports/nightly" in dry.stdout
    assert "created job reports/nightly" in first.stdout
    assert second.stdout == "0 changed, 3 unchanged\n"


def test_dry_run_changes_nothing(desk: Desk) -> None:
    desk.warren("jobs", "apply", desk.file(JOBS), "--dry-run")

    assert desk.listed("jobs", "list", "--json") == []


def test_jobs_absent_from_the_file_stay_unless_pruned(applied: Desk) -> None:
    name = applied.file("apps: [{name: reports}]\n")

    applied.warren("jobs", "apply", name)
    assert len(applied.listed("jobs", "list", "--json")) == 3

    pruned = applied.listed("jobs", "apply", name, "--prune", "--json")
    assert {(one["action"], one["name"]) for one in pruned} == {
        ("delete", "reports/nightly"),
        ("delete", "reports/often"),
        ("delete", "reports/manual"),
    }
    assert applied.listed("jobs", "list", "--json") == []


def test_wrong_file_changes_nothing_and_every_line_is_named(desk: Desk) -> None:
    name = desk.file(JOBS + "  - {name: x, app: reports, hanlder: x, timeout: -1}\n")

    done = desk.warren("jobs", "apply", name, status=1)

    assert sorted(done.stderr.splitlines()) == [
        "error: jobs.yaml:11: expected timeout to be an integer from 0 to 9999999, got: -1",
        "error: jobs.yaml:11: missing field 'handler', 'script' or 'flow'",
        "error: jobs.yaml:11: unknown field 'hanlder', did you mean 'handler'?",
    ]
    assert desk.listed("jobs", "list", "--json") == []


def test_jobs_of_an_app_that_is_nowhere_cannot_be_listed(applied: Desk) -> None:
    done = applied.warren("jobs", "list", "--app", "reprots", status=1)

    assert done.stderr == "error: no app named 'reprots', did you mean 'reports'?\n"


def test_app_that_is_nowhere_is_refused(desk: Desk) -> None:
    line = desk.refused("jobs", "apply", desk.file("jobs: [{name: x, app: reprots, handler: x}]"))

    assert line == "jobs.yaml:1: unknown app 'reprots'; name it under 'apps'"


def test_handler_that_no_living_executor_has_is_a_warning(desk: Desk) -> None:
    now = time.time_ns() // 1_000_000
    desk.rows.executor("alive", now + 60_000, json.dumps({"handlers": ["often"]}))
    desk.rows.executor("silent", now - 60_000, json.dumps({"handlers": ["report.daily"]}))

    odd = '  - {name: night, app: reports, handler: ofen, schedule: {cron: "0 0 2 ? * 1-5"}}\n'
    file = desk.file(JOBS + odd)
    foreseen = desk.warren("jobs", "apply", file, "--dry-run")
    done = desk.warren("jobs", "apply", file)
    again = desk.warren("jobs", "apply", file)

    said = [
        "warning: job 'reports/nightly': no online executor has 'report.daily'",
        "warning: job 'reports/manual': no online executor has 'by.hand'",
        "warning: job 'reports/night': no online executor has 'ofen'; did you mean 'often'?",
        "warning: job 'reports/night': 1-5 is Sunday to Thursday; did you mean MON-FRI?",
    ]
    assert foreseen.stderr.splitlines() == done.stderr.splitlines() == said
    assert again.stderr.splitlines() == said[:3]
    assert "+ would create job reports/night, stopped (enabled is not set)\n" in foreseen.stdout
    assert "+ created job reports/night, stopped (enabled is not set)\n" in done.stdout
    assert "+ created job reports/manual\n" in done.stdout


def test_json_of_an_applied_file_has_the_warnings_about_each_job(desk: Desk) -> None:
    listed = desk.listed("jobs", "apply", desk.file(JOBS), "--json")

    why = ["its handler and param were not checked: no executor of app reports is online"]
    assert [one["warnings"] for one in listed] == [[], why, why, why]


def test_next_fires_say_which_weekdays_numbers_are(desk: Desk) -> None:
    desk.rows.job("odd", schedule_kind="CRON", schedule_value="0 0 2 ? * 1-5", is_enabled=1)

    done = desk.warren("jobs", "next", "odd")

    assert done.stderr == "warning: 1-5 is Sunday to Thursday; did you mean MON-FRI?\n"


def test_list_says_when_each_job_fires_next(applied: Desk) -> None:
    table = applied.warren("jobs", "list").stdout.splitlines()
    listed = {one["name"]: one for one in applied.listed("jobs", "list", "--json")}

    assert table[0].split()[:5] == ["NAME", "APP", "SCHEDULE", "NEXT", "STATE"]
    assert len(table) == 4
    assert str(listed["nightly"]["next_fire_at"]).endswith("T18:00:00.000+00:00")
    assert listed["manual"]["next_fire_at"] is None
    assert (listed["nightly"]["enabled"], listed["manual"]["enabled"]) == (True, False)


def test_show_tells_everything_about_a_job(applied: Desk) -> None:
    shown = applied.warren("jobs", "show", "reports/nightly").stdout

    assert "cron 0 0 2 * * ?  (Asia/Shanghai)" in shown
    assert "report.daily" in shown


def test_next_fires_are_in_the_zone_of_the_job(applied: Desk) -> None:
    table = applied.warren("jobs", "next", "nightly", "--count", "3").stdout.splitlines()
    listed = applied.listed("jobs", "next", "nightly", "--count", "3", "--json")

    assert [line.split()[1:3] for line in table[1:]] == [["02:00:00", "CST"]] * 3
    assert all(str(one["fires_at"]).endswith("T18:00:00.000+00:00") for one in listed)
    assert len(listed) == 3


def test_next_fires_of_a_job_without_a_zone_are_in_that_of_the_schedulers(applied: Desk) -> None:
    applied.rows.job("plain", schedule_kind="CRON", schedule_value="0 0 2 * * ?")
    applied.rows.scheduler("one", 1, zone="Asia/Shanghai")

    table = applied.warren("jobs", "next", "plain", "--timezone", "America/New_York")

    assert [line.split()[1:3] for line in table.stdout.splitlines()[1:]] == [
        ["02:00:00", "CST"]
    ] * 5


def test_next_of_a_stopped_job_says_that_it_is_stopped(applied: Desk) -> None:
    applied.warren("jobs", "stop", "often")

    done = applied.warren("jobs", "next", "often")

    assert "is stopped" in done.stderr
    assert len(done.stdout.splitlines()) == 6


def test_job_is_started_and_stopped(applied: Desk) -> None:
    assert "stopped" in applied.warren("jobs", "stop", "often").stdout
    assert "already" in applied.warren("jobs", "stop", "often").stdout
    assert "started" in applied.warren("jobs", "start", "often").stdout
    assert "already" in applied.warren("jobs", "start", "often").stdout


def test_deleted_job_is_gone(applied: Desk) -> None:
    applied.warren("jobs", "delete", "often")

    assert applied.refused("jobs", "show", "often") == "no job named 'often'"


def test_trigger_plans_a_run_and_prints_its_id(applied: Desk) -> None:
    [planned] = applied.listed("jobs", "trigger", "manual", "--param", "x y", "--json")
    [run] = applied.listed("runs", "list", "--json")

    assert planned == {"id": run["id"]}
    assert (run["status"], run["kind"], run["param"]) == ("PLANNED", "MANUAL", "x y")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("jobs", "show", "nix"), "no job named 'nix'"),
        (("jobs", "next", "nix/nix"), "no job named 'nix/nix'"),
        (("jobs", "start", "nix"), "no job named 'nix'"),
        (("jobs", "stop", "nix"), "no job named 'nix'"),
        (("jobs", "delete", "nix"), "no job named 'nix'"),
        (("jobs", "trigger", "nix"), "no job named 'nix'"),
        (("jobs", "trigger", "manual", "--address", "warren.dead"), "'warren.dead'"),
        (("jobs", "trigger", "manual", "--param", "x" * 65_537), "up to 65536 bytes"),
        (("jobs", "apply", "nowhere.yaml"), "cannot read nowhere.yaml: No such file"),
        (("jobs", "apply", "/proc/self/fd"), "no job file like NAME.yaml is in it"),
        (("runs", "kill", "77"), "77"),
        (("runs", "list", "--job", "nix"), "no job named 'nix'"),
        (("audit", "--job", ""), "no job named ''"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    applied: Desk, arguments: tuple[str, ...], words: str
) -> None:
    assert words in applied.refused(*arguments)


@pytest.mark.parametrize("time", ["whenever", ""])
@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "list", "--since"),
        ("audit", "--since"),
        ("audit", "--until"),
        ("report", "--since"),
    ],
)
def test_a_time_that_is_none_is_wrong_usage(
    applied: Desk, arguments: tuple[str, ...], time: str
) -> None:
    assert "expected a time like" in applied.refused(*arguments, time, status=2)


@pytest.mark.parametrize("bounds", [("1d", "2d"), ("2999-01-01", None)])
def test_an_audit_of_no_time_at_all_proves_nothing(
    applied: Desk, bounds: tuple[str, str | None]
) -> None:
    since, until = bounds
    more = () if until is None else ("--until", until)

    said = applied.refused("audit", "--since", since, *more, status=2)

    assert f"expected --since to be before {until or 'now'}, got: {since}" in said


def test_pause_and_resume_say_whether_they_changed_anything(desk: Desk) -> None:
    said = [desk.warren(verb).stdout for verb in ("pause", "pause", "resume", "resume")]

    assert said == [
        "paused; to resume: warren resume\n",
        "it was already paused\n",
        "resumed\n",
        "it was not paused\n",
    ]


def test_an_executor_and_a_job_say_why_no_new_runs_start(desk: Desk) -> None:
    now = time.time_ns() // 1_000_000
    desk.rows.job("nightly")
    desk.rows.executor("one", now + 60_000, json.dumps({"slots": 4}))
    desk.rows.scheduler("node-1", now + 60_000)
    desk.warren("pause", "--reason", "upgrade")

    listed = desk.warren("executors", "list").stdout
    shown = desk.warren("executors", "show", "one").stdout
    [as_json] = desk.listed("executors", "show", "reports/one", "--json")
    [job] = desk.listed("jobs", "show", "nightly", "--json")

    paused = "dispatch is paused until somebody resumes it (upgrade)"
    assert f"no new runs start: {paused}" in listed
    assert "no new runs start on reports/one: no job of app reports is started" in listed
    assert f"no new runs  {paused}; no job of app reports is started" in shown
    assert [one["code"] for one in as_json["blocked_by"]] == ["PAUSED", "NO_STARTED_JOB"]
    assert job["blocked_by"] == [{"code": "PAUSED", "message": paused}]
    assert paused in desk.warren("jobs", "show", "nightly").stdout


def test_a_job_says_that_no_online_executor_has_its_handler(desk: Desk) -> None:
    now = time.time_ns() // 1_000_000
    desk.rows.job("nightly", handler="orders.fed")
    desk.rows.executor("one", now + 60_000, json.dumps({"handlers": ["orders.feed"]}))
    desk.rows.scheduler("node-1", now + 60_000)

    [job] = desk.listed("jobs", "show", "nightly", "--json")

    words = "no online executor of app reports has handler 'orders.fed'"
    assert job["blocked_by"] == [{"code": "APP_LACKS_HANDLER", "message": words}]
    assert "no executor with address 'nobody'" in desk.refused("executors", "show", "nobody")


def test_nodes_are_listed_with_their_state(desk: Desk) -> None:
    now = time.time_ns() // 1_000_000
    load = {"slots": 4, "running": 1, "waiting": 2, "cpu_percent": 12.5, "memory_percent": 40}
    desk.rows.executor("alive", now + 60_000, json.dumps(load | {"handlers": ["x"]}))
    desk.rows.executor("silent", now - 16_000, "")
    desk.rows.scheduler("node-1", now + 60_000)
    desk.rows.scheduler("node-2", now - 3_000)

    executors = desk.listed("executors", "list", "--json")
    schedulers = desk.listed("schedulers", "list", "--json")
    table = desk.warren("executors", "list").stdout

    assert [(one["address"], one["state"]) for one in executors] == [
        ("alive", "alive"),
        ("silent", "silent"),
    ]
    assert (executors[0]["running"], executors[0]["slots"]) == (1, 4)
    assert executors[0]["handlers"] == ["x"]
    assert [(one["node"], one["state"]) for one in schedulers] == [
        ("node-1", "alive"),
        ("node-2", "silent"),
    ]
    assert "1/4" in table


def test_audit_of_a_sound_ledger_ends_with_one_json_object(applied: Desk) -> None:
    done = applied.warren("audit")

    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["sound"] is True
    assert summary["lost"] == summary["doubled"] == 0


def test_audit_of_a_doubled_tick_fails(applied: Desk) -> None:
    job = next(one for one in applied.listed("jobs", "list", "--json") if one["name"] == "often")
    job_id = int(str(job["id"]))
    decided = applied.rows.watermark(job_id)
    applied.rows.run(job_id, decided + 500, status="SUCCEEDED")
    applied.rows.set_watermark(job_id, decided + 1_000)
    until = datetime.fromtimestamp((decided + 1_000) / 1_000, UTC).isoformat()

    done = applied.warren("audit", "--until", until, status=1)

    assert "doubled: " in done.stdout
    assert json.loads(done.stdout.splitlines()[-1])["doubled"] == 1


FAMILY = """\
apps:
  - {name: reports}
  - {name: mails}
jobs:
  - {name: a, app: reports, handler: x, children: [b, mails/c], schedule: {delay: 60}}
  - {name: b, app: reports, handler: x}
  - {name: c, app: mails, handler: x}
"""


def test_children_are_applied_once_and_shown_by_name(desk: Desk) -> None:
    name = desk.file(FAMILY)

    desk.warren("jobs", "apply", name)

    assert desk.warren("jobs", "apply", name).stdout == "0 changed, 3 unchanged\n"
    shown = json.loads(desk.warren("jobs", "show", "a", "--json").stdout)
    assert (shown["children"], shown["schedule"]) == (["reports/b", "mails/c"], "delay 60 s")
    assert "reports/b, mails/c" in desk.warren("jobs", "show", "a").stdout
    assert desk.listed("jobs", "list", "--json", "--app", "reports")[1]["children"] == []


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("children: [a]", "5: cannot save job a: its children form a cycle: a -> b -> a"),
        ("children: [nobody]", "6: cannot save job b: unknown child 'nobody'"),
        ("enabled: true", "6: cannot start job b: it has no schedule"),
    ],
)
def test_a_job_that_cannot_be_so_is_one_line_that_says_where_and_nothing_is_applied(
    desk: Desk, field: str, words: str
) -> None:
    name = desk.file(FAMILY.replace("name: b, app: reports", f"name: b, app: reports, {field}"))

    assert desk.refused("jobs", "apply", name) == f"{name}:{words}"
    assert desk.listed("jobs", "list", "--json") == []


def test_child_is_deleted_after_its_parent_only(desk: Desk) -> None:
    desk.warren("jobs", "apply", desk.file(FAMILY))

    said = desk.refused("jobs", "delete", "mails/c")
    desk.warren("jobs", "delete", "a")
    desk.warren("jobs", "delete", "mails/c")

    assert said == "cannot delete job mails/c: it is still a child of reports/a"


EVERYTHING = r"""
apps:
  - name: reports
    title: "All: reports"
    addresses: [one, "10.0.0.7:99"]
    alarm: {emails: [ops@example.com], webhook: "https://example.com/x?a=b"}
  - {name: mails}
jobs:
  - name: nightly
    app: reports
    author: "on"
    schedule: {cron: "0 0 2 * * ?", timezone: Asia/Shanghai}
    script:
      language: shell
      remark: "1.0"
      source: "set -e\n\n\tif true; then  \n  echo 'größer'\r\n\tfi\n\n"
    param: " a\n b  \n"
    route: SHARDING_BROADCAST
    block: COVER_EARLY
    misfire: FIRE_ONCE_NOW
    delivery: AT_LEAST_ONCE
    concurrency: 3
    timeout: 30
    retries: 2
    retry_delay: 10
    process: fresh
    children: [often, mails/send]
    alarm: {emails: [a@example.com, b@example.com]}
    enabled: true
  - {name: often, app: reports, schedule: {every: 3600}, handler: often, enabled: true}
  - {name: after, app: reports, schedule: {delay: 60}, handler: often, enabled: true}
  - {name: windows, app: mails, script: {language: powershell, source: "a\r\nb\r\n"}}
  - {name: send, app: mails, handler: "send it", schedule: {at: "2099-12-01T08:00:00+08:00"}}
"""


def test_what_was_exported_is_found_unchanged_and_makes_the_same_again(
    desk: Desk, tmp_path: Path, sqlite_schema: SQLiteSchema
) -> None:
    desk.warren("jobs", "apply", desk.file(EVERYTHING))

    exported = desk.warren("jobs", "export").stdout

    name = desk.file(exported)
    assert desk.warren("jobs", "apply", name, "--prune").stdout == "0 changed, 5 unchanged\n"
    (tmp_path / "other").mkdir()
    other = Desk(tmp_path / "other", sqlite_schema)
    other.warren("jobs", "apply", other.file(exported))
    assert other.warren("jobs", "export").stdout == exported
    assert "      source: |+\n        set -e\n\n        \tif true" in exported


def test_one_app_or_one_job_is_exported(desk: Desk) -> None:
    desk.warren("jobs", "apply", desk.file(EVERYTHING))

    mails = desk.warren("jobs", "export", "--app", "mails").stdout
    often = desk.warren("jobs", "export", "reports/often").stdout

    assert [line for line in mails.splitlines() if line.startswith("  - ")] == [
        "  - name: mails",
        "  - name: send",
        "  - name: windows",
    ]
    assert often.count("- name: ") == 2
    assert desk.refused("jobs", "export", "nix") == "no job named 'nix'"
    assert desk.refused("jobs", "export", "--app", "nix") == "no app named 'nix'"
    other = desk.refused("jobs", "export", "--app", "mails", "reports/often")
    assert other == "no job named 'reports/often'"


def test_a_dry_run_of_pruning_shows_what_differs_and_changes_nothing(desk: Desk) -> None:
    desk.warren("jobs", "apply", desk.file(EVERYTHING))
    before = desk.warren("jobs", "export").stdout
    wanted = before.replace("retries: 2", "retries: 3").replace("set -e", "set -eu")
    wanted = wanted.partition("  - name: send")[0] + wanted[wanted.index("  - name: after") :]
    wanted = wanted.replace("  - name: after", "  - name: later").replace(", mails/send", "")

    name = desk.file(wanted)
    said = desk.warren("jobs", "apply", name, "--prune", "--dry-run").stdout.splitlines()
    listed = desk.listed("jobs", "apply", name, "--prune", "--dry-run", "--json")

    assert said[0] == "+ would create job reports/later"
    assert "~ would update job reports/nightly" in said
    assert "    retries: 2 -> 3" in said
    assert ("      -set -e" in said, "      +set -eu" in said) == (True, True)
    assert {line for line in said if line.startswith("- ")} == {
        "- would delete job mails/send",
        "- would delete job mails/windows",
        "- would delete job reports/after",
    }
    assert said[-1] == "5 changed, 1 unchanged"
    [edit] = [one for one in listed if one["name"] == "reports/nightly"]
    assert "+set -eu" in str(edit["diff"])
    assert desk.warren("jobs", "export").stdout == before


def test_jobs_from_a_crontab_arrive_stopped_in_an_app_that_stays_as_it_is(desk: Desk) -> None:
    described = "apps:\n  - {name: reports, title: Reports, addresses: [host-1]}\n"
    desk.warren("jobs", "apply", desk.file(described))
    (desk.folder / "crontab").write_text("0 1 * * * date\n")

    desk.file(desk.warren("import", "crontab", "crontab", "--app", "reports").stdout)
    said = desk.warren("jobs", "apply", "jobs.yaml").stdout

    assert said.splitlines() == [
        "+ created job reports/date, stopped (enabled is not set)",
        "1 changed, 0 unchanged",
    ]
    [job] = desk.listed("jobs", "list", "--json")
    assert job["enabled"] is False
    exported = desk.warren("jobs", "export").stdout
    assert "title: Reports" in exported
    assert "addresses: [host-1]" in exported


def test_jobs_from_a_crontab_say_how_to_add_their_app(desk: Desk) -> None:
    (desk.folder / "crontab").write_text("0 1 * * * date\n")

    printed = desk.warren("import", "crontab", "crontab", "--app", "fresh").stdout

    assert printed.splitlines()[0].endswith("if there is none yet: warren apps add fresh")
    assert "unknown app 'fresh'" in desk.refused("jobs", "apply", desk.file(printed))


def test_a_field_of_many_jobs_is_shown_changed_and_changed_back(applied: Desk) -> None:
    dry = applied.warren("jobs", "edit", "timeout", "600", "--app", "reports", "--dry-run")
    done = applied.warren("jobs", "edit", "timeout", "600", "nightly", "often", "--yes")
    edit_id = done.stdout.split()[-1]
    applied.warren("jobs", "edit", "author", "ann", "often", "--yes")
    undone = applied.warren("jobs", "undo-edit", edit_id)
    again = applied.warren("jobs", "undo-edit", edit_id, status=1)
    both = applied.refused("jobs", "edit", "timeout", "1", "often", "--all", status=2)

    assert "~ reports/nightly\n    timeout: 0 -> 600\n" in dry.stdout
    assert "3 to change, 0 unchanged" in dry.stdout
    assert f"2 changed; to undo it: warren jobs undo-edit {edit_id}" in done.stdout
    assert "1 restored, 1 left alone" in undone.stdout
    assert "reports/often stays as it is" in undone.stderr
    assert again.stdout == "0 restored, 2 left alone\n"
    assert both.startswith("expected NAMEs or a filter, got both")
    shown = {job["name"]: job["timeout"] for job in applied.listed("jobs", "list", "--json")}
    assert shown == {"manual": 0, "nightly": 0, "often": 600}


def test_an_edit_of_many_jobs_says_every_fault_and_changes_nothing(applied: Desk) -> None:
    refused = applied.refused("jobs", "edit", "timeout", "99999999", "--all", "--yes")
    unknown = applied.refused("jobs", "edit", "timeout", "1", "gone", "--yes")

    assert "expected timeout to be" in refused
    assert "no job named 'gone'" in unknown
