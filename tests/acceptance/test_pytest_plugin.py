"""The fixture `warren_stack`, as a project's tests use it in a pytest of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import basic_environment

PROJECT = {
    "acme_handlers.py": """
        from warren import JobContext, job

        @job("orders.load")
        def load(context: JobContext) -> str:
            print("loading", context.param)
            if context.param == "none" or (context.param == "later" and not context.attempt):
                raise LookupError("no such day")
            return f"3 rows of {context.param}"
        """,
    "jobs.yaml": """
        calendars: [{name: work, weekend: [SUN], until: 2099-12-31}]
        apps: [{name: orders}, {name: mails}]
        jobs:
          - name: load
            app: orders
            handler: orders.load
            schedule: {cron: "* * * * * ?", calendar: work}
            enabled: true
            retries: 1
          - {name: remind, app: mails, handler: orders.load, param: "${DAY}"}
        """,
    "pyproject.toml": """
        [tool.pytest.ini_options]
        warren_handlers = ["acme_handlers.py"]
        warren_jobs = ["jobs.yaml"]
        warren_values = ["DAY=2026-12-24"]
        """,
    "test_orders.py": """
        import logging

        import pytest

        def test_a_run_ends_as_its_handler_says(warren_stack):
            done = warren_stack.trigger("load", "2026-12-01").wait()
            failed = warren_stack.trigger("orders/load", "none").wait()

            assert (done.status, done.message) == ("SUCCEEDED", "3 rows of 2026-12-01")
            assert failed.message.startswith("LookupError: no such day")
            assert (failed.tick.status, len(failed.tick.run_ids)) == ("FAILED", 2)
            retried = warren_stack.trigger("load", "later").wait()
            assert (retried.status, retried.message) == ("SUCCEEDED", "3 rows of later")
            assert [one.status for one in retried.attempts] == ["FAILED", "SUCCEEDED"]
            assert list(warren_stack.client.follow(done)) == ["loading 2026-12-01"]

        def test_each_app_has_an_executor_and_schedules_do_not_fire(warren_stack):
            reminded = warren_stack.trigger("remind").wait()
            assert (reminded.status, reminded.param) == ("SUCCEEDED", "2026-12-24")
            assert {one.app for one in warren_stack.client.executors()} == {"orders", "mails"}
            assert {run.kind for run in warren_stack.client.runs()} <= {"API", "RETRY"}
            with pytest.raises(LookupError, match="known: orders/load, mails/remind"):
                warren_stack.trigger("nobody")

        def test_a_test_keeps_its_own_logs(warren_stack, caplog):
            logging.getLogger("acme").warning("seen")
            assert "seen" in caplog.text
        """,
}


def run_tests(folder: Path, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in (PROJECT | files).items():
        lines = text.strip("\n").split("\n")
        margin = len(lines[0]) - len(lines[0].lstrip())
        (folder / name).write_text("\n".join(line[margin:] for line in lines) + "\n")
    plugin = [] if _is_installed() else ["-p", "warren.pytest_plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin],
        cwd=folder,
        env=basic_environment() | {"HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _is_installed() -> bool:
    from importlib.metadata import entry_points  # noqa: PLC0415 - for this question only

    return any(point.value == "warren.pytest_plugin" for point in entry_points(group="pytest11"))


def test_a_projects_tests_trigger_jobs_and_wait_for_their_ends(tmp_path: Path) -> None:
    done = run_tests(tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_each_stack_has_the_whole_log_of_its_own_in_its_folder(tmp_path: Path) -> None:
    two_stacks = """
        from warren.wiring.stack import Stack

        def test_logs(tmp_path):
            for name in ("one", "other"):
                (tmp_path / name).mkdir()
                with Stack(tmp_path / name):
                    pass
                assert "scheduler_stopped" in (tmp_path / name / "warren.log").read_text()
        """

    done = run_tests(tmp_path, **{"test_orders.py": two_stacks})

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("acme_handlers.py", "import nobodys_module\n", "cannot load handlers from"),
        pytest.param(
            "jobs.yaml",
            "jobs: [{name: x, app: y, hander: z}]\n",
            "unknown field 'hander'",
            marks=pytest.mark.release,
        ),
        (
            "jobs.yaml",
            "jobs: [{name: x, app: y, handler: orders.load, param: '${DAYS}'}]\n",
            "no value for ${DAYS}, did you mean 'DAY'?",
        ),
    ],
)
def test_what_keeps_it_from_starting_is_told_and_nothing_is_left(
    tmp_path: Path, file: str, text: str, line: str
) -> None:
    done = run_tests(tmp_path, **{file: text})

    assert done.returncode == 1
    assert "warren_stack cannot start:" in done.stdout
    assert line in done.stdout
    assert "wiring/stack.py" not in done.stdout
