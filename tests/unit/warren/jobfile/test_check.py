"""Job files are checked together, without the database they are for."""

import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from warren.cli import root

ROOT = Path(__file__).parents[4]
HANDLERS = """
from warren import job

@job("report.daily")
def daily(context):
    pass
"""


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def check(*arguments: str, **files: str) -> Result:
    for name, jobs in files.items():
        Path(f"{name}.yaml").write_text(f"jobs:\n{jobs}")
    return CliRunner().invoke(
        root, ["jobs", "check", *(f"{name}.yaml" for name in files), *arguments]
    )


def job(name: str, more: str = "") -> str:
    return f"  - {{name: {name}, app: reports, handler: report.daily{more}}}\n"


def test_files_without_problems_say_so_and_need_no_database() -> None:
    done = check(one=job("first", ", children: [second]"), two=job("second"))

    assert (done.exit_code, done.output) == (0, "2 jobs, no problems\n")
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["one.yaml", "two.yaml"]


def test_one_job_is_not_called_jobs() -> None:
    done = check(one=job("only"))

    assert (done.exit_code, done.output) == (0, "1 job, no problems\n")


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        (
            {"one": "  - {name: x, app: reports, hander: y}\n", "two": job("z", ", timeout: -1")},
            [
                "one.yaml:2: unknown field 'hander', did you mean 'handler'?",
                "one.yaml:2: missing field 'handler', 'script' or 'flow'",
                "two.yaml:2: expected timeout to be an integer from 0 to 9999999, got: -1",
            ],
        ),
        (
            {"one": job("x"), "two": job("x", ", timeout: -1")},
            ["two.yaml:2: expected timeout to be an integer from 0 to 9999999, got: -1"],
        ),
        (
            {"one": job("x", ", children: [nobody]")},
            ["one.yaml:2: cannot save job x: unknown child 'nobody'"],
        ),
        (
            {"one": job("w"), "two": job("x", ", children: [y]") + job("y", ", children: [x]")},
            ["two.yaml:2: cannot save job x: its children form a cycle"],
        ),
        (
            {"one": job("x", ", enabled: true")},
            ["one.yaml:2: cannot start job x: it has no schedule"],
        ),
    ],
)
def test_what_applying_would_refuse_is_told_with_its_line(
    files: dict[str, str], lines: list[str]
) -> None:
    done = check(**files)

    told = getattr(done.exception, "lines", ())
    assert done.exit_code == 1
    assert len(told) == len(lines), told
    for line, start in zip(told, lines, strict=True):
        assert line.startswith(start), line


def test_a_file_that_cannot_be_read_is_named() -> None:
    done = check("gone.yaml", one=job("x"))

    assert getattr(done.exception, "lines", ()) == (
        "cannot read gone.yaml: No such file or directory",
    )


def test_jobs_may_only_name_handlers_that_the_module_has() -> None:
    Path("acme.py").write_text(HANDLERS)
    wrong = job("y").replace("report.daily", "report.dailly")

    right = check("--handlers", "acme.py", one=job("x"))
    done = check("--handlers", "acme.py", one=job("x") + wrong)

    assert right.exit_code == 0, right.exception
    assert getattr(done.exception, "lines", ()) == (
        "one.yaml:3: unknown handler 'report.dailly', did you mean 'report.daily'?",
    )


def test_what_is_only_doubtful_is_a_warning() -> None:
    done = check(one=job("x", ', children: [other/job], schedule: {cron: "0 0 2 ? * 1"}'))

    assert done.exit_code == 0
    assert "child 'other/job' is in no file here and was not checked" in done.output
    assert "reports/x" in done.output.partition("SUN")[0]


def test_the_hook_for_pre_commit_calls_it() -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *arguments = shlex.split(hook["entry"])
    Path("jobs.yaml").write_text(f"jobs:\n{job('x')}")

    done = CliRunner().invoke(root, [*arguments, "jobs.yaml"])

    assert (program, done.exit_code) == ("warren", 0)


def test_a_calendar_that_no_file_has_is_told_and_counts_as_existing() -> None:
    schedule = ", schedule: {cron: '0 0 9 * * ?', calendar: cn}, enabled: true"

    done = check(one=job("first", schedule))

    assert done.exit_code == 0
    assert "calendar 'cn' is in no file here and was not checked" in done.output


TYPED = """
from dataclasses import dataclass
from datetime import date
from typing import Literal

from warren import JobContext, job

@dataclass
class Load:
    day: date
    mode: Literal["full", "delta"] = "full"

@job("report.daily", app="reports", timeout="5m")
def daily(context: JobContext, params: Load) -> None: ...
"""


def test_params_are_checked_against_the_types_of_their_handlers() -> None:
    Path("typed.py").write_text(TYPED)
    nightly = ", schedule: {every: 60}"
    wrong = """, param: '{"day": "soon", "mode": "half"}'"""
    template = """, param_template: '{"day": "{{ run_date }}"}'"""
    files = {
        "one": job("asked") + job("wrong", wrong) + job("none", nightly) + job("made", template),
        "two": '  - {name: get, app: reports, handler: warren.http, param: \'{"uri": "x"}\'}\n'
        "  - {name: run, app: reports, handler: warren.command, param: '{\"args\": []}'}\n",
    }

    by_handlers = check("--handlers", "typed.py", **files)
    by_module = CliRunner().invoke(root, ["jobs", "check", "one.yaml", "--from", "typed.py"])

    of_one = [
        'one.yaml:3: expected day to be date, got: "soon"',
        'one.yaml:3: expected mode to be one of "delta", "full", got: "half"',
        "one.yaml:4: expected param to have 'day'",
    ]
    of_two = [
        "two.yaml:2: expected param to have 'url'",
        "two.yaml:2: param has no 'uri', did you mean 'url'?",
        "two.yaml:3: expected args to satisfy minItems 1, got: []",
    ]
    assert list(getattr(by_handlers.exception, "lines", ())) == of_one + of_two
    assert list(getattr(by_module.exception, "lines", ())) == of_one


def test_fields_of_other_schedulers_are_told_what_to_use_here() -> None:
    done = check(one=job("a", ", depends_on: [b], env: {X: 1}, memory: 2G, cron: x, retry_dely: 3"))

    place = "one.yaml:2: unknown field"
    limits = "WARREN_JOB_LIMITS of the executor limits memory and CPU time of each process"
    after = "a flow says which jobs run after which"
    lines = getattr(done.exception, "lines", ())
    assert [line.partition(";")[0].partition(", or")[0] for line in lines] == [
        f"{place} 'depends_on': {after}",
        f"{place} 'env': give variables to the executor",
        f"{place} 'memory': {limits}",
        f"{place} 'cron': write `schedule: {{cron: …}}`",
        f"{place} 'retry_dely', did you mean 'retry_delay'?",
    ]
