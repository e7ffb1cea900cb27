"""Jobs without code in real job processes: their output, their end, and what is told of them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.support.slot_harness import SlotHarness
from warren.broker.codec import catalogue_of
from warren.broker.messages import Outcome
from warren.executor.fork_server import zygote
from warren.executor.handlers.handler_registry import HandlersError, load_handlers
from warren.executor.handlers.hooks import JobCode
from warren.scheduler.jobs.param_schema import param_problems


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlotHarness]:
    folder = tmp_path_factory.mktemp("builtin")
    harness = SlotHarness(folder, "", sources=(), builtin=("http", "command")).open()
    yield harness
    harness.close()


def test_the_catalogue_has_the_schemas_of_the_params(harness: SlotHarness) -> None:
    assert harness.slots.catalogue is not None
    told = catalogue_of(harness.slots.catalogue.contents)

    schemas = {facts.name: msgspec.json.decode(facts.schema) for facts in told.handlers}

    assert sorted(schemas) == ["warren.command", "warren.http"]
    request = '{"url": "https://example.com/", "method": "POST", "json": {"a": [1]}}'
    assert param_problems(schemas["warren.http"], request) == []
    wrong = '{"method": "SEND", "timeout": 0, "to": 1}'
    fields = {problem.field for problem in param_problems(schemas["warren.http"], wrong)}
    assert fields == {"param/url", "param/method", "param/timeout", "param/to"}
    assert param_problems(schemas["warren.command"], '{"args": ["ls", "-l"], "skipped": [3]}') == []
    assert param_problems(schemas["warren.command"], '{"args": "ls -l"}')


def test_the_output_of_a_command_is_the_runs_log(harness: SlotHarness) -> None:
    source = "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr)"
    param = msgspec.json.encode({"args": [sys.executable, "-c", source]}).decode()

    finished = harness.run("warren.command", param)

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "exit code 0")
    assert finished.log_tail.endswith("out\nerr\n")


@pytest.mark.parametrize("is_stubborn", [False, True])
def test_a_command_that_is_out_of_time_dies_with_all_that_it_started(
    harness: SlotHarness, is_stubborn: bool
) -> None:
    trap = "trap '' TERM; " if is_stubborn else ""
    script = f"{trap}echo $$ > {harness.folder}/pid-{is_stubborn}; sleep 1000 & wait"
    param = msgspec.json.encode({"args": ["sh", "-c", script]}).decode()
    run_id = harness.start("warren.command", param, timeout_seconds=60)
    noted = harness.folder / f"pid-{is_stubborn}"
    harness.turn(lambda: noted.exists() and noted.read_text().strip())

    harness.loop.skip(60)
    if is_stubborn:
        harness.loop.skip(11)
    finished = harness.wait(run_id)

    assert finished.outcome is Outcome.TIMED_OUT
    with pytest.raises(FileNotFoundError):
        Path(f"/proc/{noted.read_text().strip()}/stat").read_text()


def test_without_its_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "connections"):
        monkeypatch.delitem(sys.modules, f"warren.executor.builtin.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.setitem(sys.modules, "httpcore", None)
    code = JobCode(sources=(), builtin=("http",))

    with pytest.raises(HandlersError) as refused:
        load_handlers([], declare_more=lambda: zygote._declare_builtin(code))

    assert refused.value.line == (
        "WARREN_BUILTIN=http needs httpcore, which is not installed: "
        "install Warren's wheel with [http]"
    )
