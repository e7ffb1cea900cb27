"""Jobs that handlers declare in code: applied, exported, removed, declared in one place only."""

from pathlib import Path

import pytest

from tests.support.command import Command, run_warren
from tests.support.desk import Desk
from tests.support.schemas import SQLiteSchema

HANDLERS = """\
from dataclasses import dataclass

from warren import JobContext, Retry, cron, every, job

@dataclass
class Load:
    day: str
    parts: int = 1

@job("orders.load", schedule=cron("0 0 2 * * ?", zone="Europe/Berlin"), timeout="30m", app="shop",
     retry=Retry(5, delay=10, backoff="exponential", most="10m", jitter=0.2, never=(KeyError,)),
     param=Load("2026-12-01"), children=["mail"], enabled=True)
def load(context: JobContext, params: Load) -> None:
    pass

@job("mails.send", job_name="mail", schedule=every("5m"), block="DISCARD_LATER")
def mail(context: JobContext) -> None:
    pass

@job("by.hand", retry=Retry(1))
def by_hand(context: JobContext) -> None:
    pass
"""
AS_FILE = """\
jobs:
  - name: orders.load
    app: shop
    schedule: {cron: "0 0 2 * * ?", timezone: Europe/Berlin}
    handler: orders.load
    param: "{\\"day\\":\\"2026-12-01\\",\\"parts\\":1}"
    timeout: 1800
    retry: {times: 5, delay: 10, backoff: exponential, most: 600, jitter: 0.2}
    children: [mail]
    enabled: true
  - name: mail
    app: shop
    schedule: {every: 300}
    handler: mails.send
    block: DISCARD_LATER
"""
FROM = ("--from", "acme.handlers", "--app", "shop")


@pytest.fixture
def desk(tmp_path: Path, sqlite_schema: SQLiteSchema) -> Desk:
    desk = Desk(tmp_path, sqlite_schema)
    desk.warren("apps", "add", "shop")
    (tmp_path / "acme").mkdir()
    write(desk, HANDLERS)
    return desk


def write(desk: Desk, handlers: str) -> None:
    (desk.folder / "acme" / "handlers.py").write_text(handlers)


def changes(desk: Desk, *arguments: str) -> list[tuple[object, ...]]:
    told = desk.listed("jobs", "apply", *arguments, "--json")
    return [(change["action"], change["name"]) for change in told]


def place(desk: Desk, name: str) -> object:
    return desk.listed("jobs", "show", name, "--json")[0]["declared_in"]


def test_what_code_declares_is_exported_as_the_job_file_that_says_the_same(desk: Desk) -> None:
    exported = desk.warren("jobs", "export", *FROM)

    assert exported.stdout == AS_FILE


def test_declared_jobs_are_applied_once_and_again_without_effect(desk: Desk) -> None:
    first = changes(desk, *FROM)
    second = changes(desk, *FROM)

    assert first == [("create", "shop/orders.load"), ("create", "shop/mail")]
    assert second == []
    assert place(desk, "mail") == "code:acme.handlers"
    assert "code, acme.handlers" in desk.warren("jobs", "show", "mail").stdout


def test_pruning_removes_what_the_module_declared_before_and_nothing_else(desk: Desk) -> None:
    desk.warren("apps", "add", "other")
    desk.warren("jobs", "apply", *FROM)
    desk.file("jobs: [{name: own, app: shop, handler: h}]")
    desk.warren("jobs", "apply", "jobs.yaml", "--prune")
    desk.rows.job("by-person", app="shop")
    write(
        desk, HANDLERS[: HANDLERS.index('@job("orders')] + HANDLERS[HANDLERS.index('@job("mails') :]
    )

    kept = changes(desk, *FROM)
    pruned = changes(desk, *FROM, "--prune")

    assert kept == []
    assert pruned == [("delete", "shop/orders.load")]
    names = {str(job["name"]) for job in desk.listed("jobs", "list", "--json")}
    assert names == {"mail", "own", "by-person"}


def test_pruning_without_an_app_looks_everywhere_and_with_one_only_there(desk: Desk) -> None:
    desk.warren("apps", "add", "other")
    desk.warren("jobs", "apply", *FROM)
    write(desk, "from warren import job\n@job('x')\ndef x(context): pass\n")

    elsewhere = changes(desk, "--from", "acme.handlers", "--app", "other", "--prune")
    everywhere = changes(desk, "--from", "acme.handlers", "--prune")

    assert elsewhere == []
    assert everywhere == [("delete", "shop/mail"), ("delete", "shop/orders.load")]


def test_a_job_in_code_and_in_a_file_is_refused_until_it_is_taken_over(desk: Desk) -> None:
    desk.warren("jobs", "apply", *FROM)
    desk.file(AS_FILE)

    refused = desk.warren("jobs", "apply", "jobs.yaml", status=1).stderr.splitlines()
    taken = changes(desk, "jobs.yaml", "--take-over")
    back = desk.warren("jobs", "apply", *FROM, status=1).stderr.splitlines()

    words = "declare it in one place, or move it here with take-over"
    assert refused == [
        f"error: jobs.yaml:{line}: this job is already declared in code, in acme.handlers; {words}"
        for line in (2, 11)
    ]
    assert taken == [("update", "shop/orders.load"), ("update", "shop/mail")]
    assert place(desk, "mail") == "file"
    assert back == [
        f"error: acme/handlers.py:{line}: handler {name!r}: this job is already declared in "
        f"a job file; {words}"
        for line, name in ((10, "orders.load"), (16, "mails.send"))
    ]


def test_a_job_that_a_person_made_becomes_that_of_the_code_which_declares_it(desk: Desk) -> None:
    desk.rows.job(
        "mail",
        app="shop",
        handler="mails.send",
        schedule_kind="FIX_RATE",
        schedule_value="300",
        block="DISCARD_LATER",
    )

    told = desk.listed("jobs", "apply", *FROM, "--json")

    assert [
        (change["action"], change["details"]) for change in told if change["name"] == "shop/mail"
    ] == [("update", ["declared in: code, acme.handlers"])]
    assert place(desk, "mail") == "code:acme.handlers"


LOAD = "acme/handlers.py:10: handler 'orders.load': "
MAIL = "acme/handlers.py:16: handler 'mails.send': "
CANNOT = "cannot load handlers from 'acme.handlers': "
#: What is written instead of what, and the line that says what is wrong with it.
WRONG = {
    ('timeout="30m"', 'timeout="soon"'): f"{LOAD}expected timeout to be whole seconds, or a "
    "duration such as 90s, 5m, 2h or 1d, got: 'soon'",
    (
        "0 0 2 * * ?",
        "0 2 * * *",
    ): f"{LOAD}expected a cron expression of 6 or 7 fields, of which the "
    "first are the seconds, got: '0 2 * * *', did you mean '0 0 2 * * ?'?",
    ("Europe/Berlin", "Europe/Berln"): f"{LOAD}expected timezone to be an IANA name, got: "
    "'Europe/Berln', did you mean 'Europe/Berlin'?",
    ('job_name="mail"', 'app="shop", job_name="orders.load"'): f"{MAIL}its job 'orders.load' is "
    "declared twice, first by handler 'orders.load'",
    ("block=", "blck="): f"{CANNOT}handler 'mails.send' has unknown field 'blck', did you mean "
    "'block'? ({folder}/acme/handlers.py:16)",
    ('every("5m")', '"5m"'): f"{CANNOT}expected schedule of handler 'mails.send' to be cron(…), "
    "every(…), delay(…) or at(…), got: '5m' ({folder}/acme/handlers.py:16)",
    ('app="shop"', 'app="shp"'): f"{LOAD}unknown app 'shp', did you mean 'shop'?",
}


@pytest.mark.parametrize(("change", "line"), WRONG.items())
def test_what_is_wrong_is_told_in_a_line_that_names_handler_and_field(
    desk: Desk, change: tuple[str, str], line: str
) -> None:
    write(desk, HANDLERS.replace(*change, 1))

    refused = desk.warren("jobs", "apply", *FROM, status=1).stderr

    assert f"error: {line.replace('{folder}', str(desk.folder))}\n" in refused
    assert desk.listed("jobs", "list", "--json") == []


def test_a_job_without_an_app_needs_one_from_the_command(desk: Desk) -> None:
    refused = desk.refused("jobs", "apply", "--from", "acme.handlers")

    assert refused == (
        "acme/handlers.py:16: handler 'mails.send': missing field 'app'; or give --app"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected a job FILE, or --from MODULE"),
        (["jobs.yaml", *FROM[:2]], "expected a job FILE or --from MODULE, got both"),
        (["jobs.yaml", "--app", "shop"], "--app goes with --from; a job file names its apps"),
    ],
)
def test_apply_takes_a_file_or_a_module(desk: Desk, arguments: list[str], words: str) -> None:
    assert words in desk.warren("jobs", "apply", *arguments, status=2).stderr


def test_settings_are_kept_from_the_modules_that_are_imported(desk: Desk) -> None:
    write(
        desk,
        "import os\nprint(sorted(n for n in os.environ if n.startswith('WARREN_')))\n" + HANDLERS,
    )

    exported = desk.warren("jobs", "export", *FROM)

    assert exported.stdout == AS_FILE
    assert exported.stderr == "[]\n"


def test_warren_up_applies_what_its_handlers_declare(tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: mail, app: shop, handler: h}]")

    with Command("up", "--jobs", "handlers.py", "--executors", "1", folder=tmp_path) as command:
        command.wait_for("created job shop/mail, stopped")
        command.wait_for("created job shop/orders.load")
        command.wait_for("Ctrl-C stops everything")
        ran = run_warren("jobs", "trigger", "mail", "--wait", folder=tmp_path)
    both = run_warren("up", "--jobs", "handlers.py", "--apply", "jobs.yaml", folder=tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert both.returncode == 1
    assert "job shop/mail is in jobs.yaml too; declare it in one place" in both.stderr
