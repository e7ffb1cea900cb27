"""Celery's own app, as it comes from PyPI: its schedule as jobs, its tasks as handlers."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import run_program
from tests.support.distributions import make_environment, skip_without_pypi
from warren.jobfile.reader import read_job_file

Project = Callable[..., "subprocess.CompletedProcess[str]"]

PROJECT = """
import celery.exceptions
from datetime import timedelta
from celery import Celery
from celery.schedules import crontab

app = Celery("proj", broker="memory://")
app.conf.timezone = "Asia/Shanghai"
app.conf.beat_schedule = {
    "adds": {"task": "proj.add", "schedule": crontab(minute=30, hour="2", day_of_week="mon-fri"),
             "args": (1, 2)},
    "greets": {"task": "proj.greet", "schedule": timedelta(seconds=30), "kwargs": {"who": "olga"}},
}

@app.task
def add(a, b):
    return a + b

@app.task(bind=True)
def greet(self, who):
    print(f"run {self.request.id}")
    if who == "nobody":
        raise LookupError("nobody is there")
    return f"hello {who}"

@app.task(bind=True, max_retries=3)
def insists(self, times, countdown=60):
    if self.request.retries < times:
        raise self.retry(exc=LookupError(f"not {self.request.retries}"), countdown=countdown)
    return f"{self.request.id} done after {self.request.retries}"

@app.task
def gives_up(how):
    raise getattr(celery.exceptions, how)("no orders")

@app.task(autoretry_for=(OSError,), max_retries=1, retry_backoff=True)
def never():
    print("tried")
    raise OSError("it never works")
"""
HANDLERS = """
from proj import app
from warren.contrib.celery import declare_tasks

declare_tasks(app)
"""


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Celery is installed."""
    folder = tmp_path_factory.mktemp("celery")
    skip_without_pypi(folder)
    programs = make_environment(folder / "environment", ["celery==5.6.*"])
    [found] = programs.parent.glob("lib/python*/site-packages")
    return found


@pytest.fixture
def warren(libraries: Path, tmp_path: Path) -> Project:
    """Run `warren ARGUMENTS` in the folder of a project with Celery."""
    (tmp_path / "proj.py").write_text(PROJECT)
    (tmp_path / "handlers.py").write_text(HANDLERS)
    env = {"PYTHONPATH": str(libraries)}

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return run_program(*arguments, folder=tmp_path, env=env, seconds=120)

    return run


@pytest.mark.timeout(600)  # on a busy machine Celery takes minutes to be installed
def test_schedule_and_tasks_of_a_celery_app(warren: Project, tmp_path: Path) -> None:
    printed = warren("import", "celery", "proj:app", "--app", "mails")
    added = warren("try", "handlers.py", "proj.add", "--param", '{"args": [40, 2]}')
    greeted = warren("try", "handlers.py", "proj.greet", "--param", '{"kwargs": {"who": "olga"}}')
    failed = warren("try", "handlers.py", "proj.greet", "--param", '{"kwargs": {"who": "nobody"}}')

    assert (printed.returncode, printed.stderr) == (0, "")
    (tmp_path / "jobs.yaml").write_text(printed.stdout)
    adds, greets = read_job_file(tmp_path / "jobs.yaml", now_ms=0).specs
    assert (adds.schedule_value, adds.timezone) == ("0 30 2 ? * 2-6", "Asia/Shanghai")
    assert (adds.handler, adds.param) == ("proj.add", '{"args": [1, 2]}')
    assert (greets.schedule_value, greets.param) == ("30", '{"kwargs": {"who": "olga"}}')
    assert "42" in added.stdout, added.stdout + added.stderr
    assert "hello olga" in greeted.stdout, greeted.stdout + greeted.stderr
    assert failed.returncode == 1
    assert "nobody is there" in failed.stdout + failed.stderr


@pytest.mark.timeout(600)
def test_what_celery_counts_neither_way_is_skipped_or_fails(
    warren: Project, tmp_path: Path
) -> None:
    ignored = warren("try", "handlers.py", "proj.gives_up", "--param", '{"args": ["Ignore"]}')
    rejected = warren("try", "handlers.py", "proj.gives_up", "--param", '{"args": ["Reject"]}')
    with (tmp_path / "proj.py").open("a") as file:
        file.write("@app.task(name='odd', autoretry_for=(OSError,), max_retries=-1)\n")
        file.write("def odd():\n    pass\n")
    refused = warren("try", "handlers.py", "odd")

    assert (ignored.returncode, "SKIPPED" in ignored.stdout) == (0, True), ignored.stdout
    assert (rejected.returncode, "FAILED" in rejected.stdout) == (1, True), rejected.stdout
    assert refused.stderr == (
        "error: cannot load handlers from 'handlers.py': how is Celery's task 'odd' retried? "
        "expected times to be 0 to 1000, got: -1\n"
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("setting", ["", "app.conf.task_eager_propagates = True\n"])
def test_a_task_that_retries_runs_again_at_once(
    warren: Project, tmp_path: Path, setting: str
) -> None:
    with (tmp_path / "proj.py").open("a") as file:
        file.write(setting)

    done = warren("try", "handlers.py", "proj.insists", "--param", '{"args": [3]}')
    over = warren("try", "handlers.py", "proj.insists", "--param", '{"args": [4]}')
    later = warren("try", "handlers.py", "proj.never")
    never = warren("try", "handlers.py", "proj.never", "--attempt", "1")

    assert (done.returncode, "done after 3" in done.stdout) == (0, True), done.stdout
    assert (over.returncode, "LookupError: not 3" in over.stdout) == (1, True), over.stdout
    assert (later.returncode, later.stdout.count("tried\n")) == (1, 1), later.stdout
    assert (never.returncode, never.stdout.count("tried\n")) == (1, 1), never.stdout
    assert "RetryLater" not in never.stdout
    assert "OSError: it never works" in never.stdout
