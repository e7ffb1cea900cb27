"""`warren.testing.run`: a handler's run in a test, as a job process would end it."""

import asyncio
import importlib
import logging
import re
import runpy
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from warren import CallFailed, JobContext, job
from warren.testing import Called, Done, load_jobs, run


@job("orders.load")
def load(context: JobContext) -> str:
    context.log("loading %s", context.param)
    sys.stdout.write(f"shard {context.shard_index} of {context.shard_total}\n")
    logging.getLogger("orders").info("attempt %d", context.attempt)
    return f"{context.scheduled_at:%d %H}"


def test_what_a_handler_calls_is_told_and_runs_nothing() -> None:
    def handler(context: JobContext) -> None:
        context.call("mail", {"to": 7})
        context.call("pack")

    assert run(handler).called == [Called("mail", '{"to":7}'), Called("pack")]


def test_a_run_has_what_its_test_says_and_tells_how_it_ended() -> None:
    done = run(load, param="x", at="2026-12-01T02:00Z", attempt=2, shard=(1, 3), kind="RETRY")

    assert (done.outcome, done.message, done.returned, done.error) == (
        "SUCCEEDED",
        "01 02",
        "01 02",
        None,
    )
    assert [line.partition(" INFO ")[2] or line for line in done.lines] == [
        "loading x",
        "shard 1 of 3",
        "attempt 2",
    ]


def test_a_result_is_what_programs_get_of_it() -> None:
    def handler(context: JobContext) -> dict[str, tuple[int, str]]:
        if context.param:
            with suppress(Exception):
                context.fail("after all")
        return {"parts": (1, context.kind)}

    assert run(handler).result == {"parts": [1, "MANUAL"]}
    assert run(handler, param="x").result is None


@dataclass
class Load:
    day: date
    parts: int = 1


def test_a_typed_handler_gets_its_params() -> None:
    def handler(context: JobContext, params: Load) -> str:
        return f"{params.day:%d} {params.parts} {context.param}"

    def untyped(_context: JobContext, _params) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
        """Be refused."""

    of_json = '{"day":"2026-12-01","parts":1}'
    assert run(handler, params=Load(date(2026, 12, 1))).message == f"01 1 {of_json}"
    assert run(handler, params={"day": "2026-12-01", "parts": 1}).message == f"01 1 {of_json}"
    assert run(handler, param='{"day":"2026-12-02"}').result == '02 1 {"day":"2026-12-02"}'
    assert (
        run(handler).message == "its param does not fit Load: Object missing required field `day`"
    )
    with pytest.raises(ValueError, match="to have a type, such as a dataclass, got: none"):
        run(untyped)


def test_a_due_time_is_in_utc_and_now_by_default() -> None:
    def due(context: JobContext) -> str:
        return context.scheduled_at.isoformat()

    assert run(due, at="2026-12-01T02:00+08:00").message == "2026-11-30T18:00:00+00:00"
    assert datetime.fromisoformat(run(due).message) <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("raised", "outcome", "message"),
    [
        (ValueError("no orders"), "FAILED", "ValueError: no orders"),
        (SystemExit(0), "SUCCEEDED", ""),
        (SystemExit(3), "FAILED", "sys.exit(3)"),
    ],
)
def test_what_a_handler_raises_ends_its_run_as_in_an_executor(
    raised: BaseException, outcome: str, message: str
) -> None:
    def handler(_context: JobContext) -> None:
        raise raised

    done = run(handler)

    assert (done.outcome, done.message.splitlines()[:1]) == (outcome, [message] if message else [])
    assert done.error is raised


def test_a_failure_that_the_handler_caught_is_one() -> None:
    def handler(context: JobContext) -> str:
        try:
            context.fail("no orders at all")
        except Exception:  # noqa: BLE001 - as handlers do
            return "fine"

    assert run(handler).message == "no orders at all"


def test_a_coroutine_is_awaited() -> None:
    async def handler(_context: JobContext) -> int:
        await asyncio.sleep(0)
        return 3

    async def inside() -> Done:
        return run(handler)

    done = run(handler)
    assert (done.returned, done.message) == (3, "3")
    with pytest.raises(RuntimeError, match="outside an event loop"):
        asyncio.run(inside())


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"at": "2026-12-01T02:00"}, "with its zone, got: '2026-12-01T02:00'"),
        ({"at": "tomorrow"}, "expected at to be like 2026-12-01T02:00Z"),
        ({"shard": (3, 3)}, r"expected shard to be like \(0, 3\), got: \(3, 3\)"),
        ({"attempt": -1}, "expected attempt to be 0 or more, got: -1"),
    ],
)
def test_wrong_values_are_refused_with_one_line(wrong: dict[str, object], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        run(load, **wrong)  # type: ignore[arg-type]


def test_a_test_stays_as_it_was() -> None:
    root = logging.getLogger()
    before = sys.stdout, root.level, list(root.handlers)

    run(load)

    assert (sys.stdout, root.level, list(root.handlers)) == before


def test_a_skipped_run_says_why() -> None:
    def load(context: JobContext) -> None:
        context.skip("holiday")

    done = run(load)

    assert (done.outcome, done.message) == ("SKIPPED", "holiday")


JOBS = """
jobs:
  - name: load
    app: orders
    handler: orders.load
    schedule: {cron: "0 0 2,14 * * ?", timezone: Europe/Berlin}
  - {name: each, app: orders, handler: mails, schedule: {cron: "0 0 * * * ?"}}
  - {name: asked, app: orders, handler: orders.load}
"""


def test_a_job_file_tells_when_its_jobs_fire_and_what_is_wrong(tmp_path: Path) -> None:
    file, handlers = tmp_path / "jobs.yaml", tmp_path / "own_handlers.py"
    file.write_text(JOBS)
    handlers.write_text("from warren import job\n\n@job('orders.load')\ndef load(c): ...\n")

    jobs = load_jobs(file, handlers=str(handlers), timezone="Asia/Tokyo")

    assert jobs.names == ["orders/load", "orders/each", "orders/asked"]
    assert jobs.problems == [f"{file}:7: unknown handler 'mails'"]
    summer_ends = [due.isoformat() for due in jobs.fires("load", "2026-10-25", 3)]
    assert summer_ends == [
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T14:00:00+01:00",
        "2026-10-26T02:00:00+01:00",
    ]
    [first] = jobs.fires("orders/each", date(2026, 12, 1))
    assert first.isoformat() == "2026-12-01T00:00:00+09:00"
    assert jobs.fires("asked", "2026-12-01") == []
    with pytest.raises(LookupError, match="expected name to be that of one job, got: 'nobody'"):
        jobs.fires("nobody", "2026-12-01")


def test_handlers_may_be_given_as_a_module_but_not_as_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "given_as_module.py").write_text(
        "from warren import cron, job\n\n"
        "@job('load', schedule=cron('0 0 2 * * ?'))\ndef load(c): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module: Any = importlib.import_module("given_as_module")

    jobs = load_jobs(handlers=module, app="orders")
    with pytest.raises(TypeError, match=r"^expected files to be paths, got: <module .* handlers=$"):
        load_jobs(module)

    assert (jobs.names, jobs.problems) == (["orders/load"], [])


def test_job_files_get_their_values(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "jobs:\n  - {name: '${NAME}', app: orders, handler: x, timeout: '${SECONDS}'}\n"
    )

    given = load_jobs(file, values={"NAME": "load", "SECONDS": 30})
    missing = load_jobs(file, values={"NAME": "load", "SECOND": 30})
    none = load_jobs(file)

    assert (given.names, given.problems) == (["orders/load"], [])
    assert missing.problems == [
        f"{file}:2: no value for ${{SECONDS}}, did you mean 'SECOND'?",
        "values SECOND: no job file has ${SECOND}, did you mean 'SECONDS'?",
    ]
    assert f"{file}:2: no value for ${{NAME}}; give one by values={{'NAME': …}}" in none.problems


def test_what_a_handler_waits_for_has_the_result_that_the_test_gives() -> None:
    def handler(context: JobContext) -> str:
        return f"{context.call('count').result()} rows"

    given = run(handler, results={"count": 3})
    failing = run(handler, results={"count": CallFailed("no", status="FAILED", run_id=1)})
    missing = run(handler)

    assert (given.message, given.called) == ("3 rows", [Called("count")])
    assert isinstance(failing.error, CallFailed)
    assert "give the result of job 'count' as results={'count': …}" in missing.message


DOCS = Path(__file__).parents[3] / "docs"


def test_the_documented_tests_hold_for_the_documented_handlers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blocks(page: str) -> list[str]:
        text = (DOCS / page).read_text()
        return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

    (tmp_path / "handlers.py").write_text("\n".join(blocks("jobs.md")[:2]))
    (tmp_path / "documented.py").write_text(blocks("testing.md")[0])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "handlers", raising=False)

    tests = runpy.run_path(str(tmp_path / "documented.py"))

    names = [name for name in tests if name.startswith("test_")]
    assert len(names) == 3
    for name in names:
        tests[name]()
    sys.modules.pop("handlers")
