"""What a job process has and has not of the executor's, and which code it runs."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.slot_harness import SlotHarness
from warren.broker.codec import CATALOGUE_BYTES, catalogue_of
from warren.broker.messages import ABOUT_LIMIT, HANDLER_LIMIT, Outcome
from warren.executor.handlers.handler_registry import HandlersError

#: All of Warren that a job process has loaded, by package: each module costs every job's process.
LOADED = {
    "warren": "broker executor resources",
    "warren.broker": "durations messages process_use reasons stored_reasons",
    "warren.resources": "spelling",
    "warren.executor": "begin_notes disk errors fork_server handlers",
    "warren.executor.fork_server": "confinement forking frames interpreter "
    "job_main linux output process_state termination zygote",
    "warren.executor.handlers": "context declarations handler_registry hooks outcomes params",
}

SOURCE = r"""
import logging, multiprocessing, os, random, signal, subprocess, sys, threading

log_file = logging.FileHandler(os.path.join(os.path.dirname(__file__), "app.log"), delay=False)
logging.getLogger("app").addHandler(log_file)

def descriptors():
    for entry in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            yield int(entry), os.readlink("/proc/self/fd/" + entry)
        except FileNotFoundError:
            pass

@job("descriptors")
def show_descriptors(context):
    return "\n".join(f"{number} {target}" for number, target in descriptors())

@job("descriptors.of.child")
def descriptors_of_child(context):
    return subprocess.run(["ls", "/proc/self/fd"], capture_output=True, text=True).stdout.split()

@job("environment")
def environment(context):
    return "\n".join(f"{k}={v}" for k, v in os.environ.items())

@job("modules")
def modules(context):
    return " ".join(sys.modules)

@job("standing")
def standing(context):
    ignored = [s.name for s in signal.Signals if signal.getsignal(s) is signal.SIG_IGN]
    return repr((
        os.getsid(0) == os.getpgrp() == os.getpid(),
        sorted(ignored),
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        threading.current_thread() is threading.main_thread(),
        sys.stdin.read(),
        os.stat("/proc/self").st_uid == os.getuid(),
    ))

@job("oom")
def oom(context):
    return open("/proc/self/oom_score_adj").read().strip()

@job("random")
def random_number(context):
    return random.random()

@job("app.log")
def app_log(context):
    logging.getLogger("app").warning("to the application's own file")

@job("pool")
def pool(context):
    with multiprocessing.Pool(2) as workers:
        return workers.map(abs, [-1, -2, -3])

@job("family")
def family(context):
    own, parent = multiprocessing.current_process(), multiprocessing.parent_process()
    return f"{own.name} {own.pid == os.getpid()} {parent.pid == os.getppid()} {parent.is_alive()}"

@job("shared.memory")
def shared_memory(context):
    from multiprocessing.shared_memory import SharedMemory
    block = SharedMemory(create=True, size=16)
    block.close()
    block.unlink()
    return "freed"

@job("workers.terminated")
def workers_terminated(context):
    import time
    worker = multiprocessing.Process(target=time.sleep, args=(60,))
    worker.start()
    worker.terminate()
    worker.join()
    return worker.exitcode
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlotHarness]:
    os.environ["WARREN_SECRET"] = "the secret of the test" * 2
    here, there = socket.socketpair()
    there.set_inheritable(True)
    harness = SlotHarness(tmp_path_factory.mktemp("isolation"), SOURCE).open()
    yield harness
    harness.close()
    here.close()
    there.close()
    assert "WARREN_SECRET" not in os.environ


def test_job_has_its_own_descriptors_only(harness: SlotHarness) -> None:
    busy = harness.start("pool")
    finished = harness.run("descriptors")
    harness.wait(busy)

    log = str(harness.log_path(finished.run_id))
    notes = str(harness.folder / "begin-notes")
    targets = [line.split(" ", 1)[1] for line in finished.message.splitlines()]
    sockets = [each for each in targets if each.startswith("socket:")]
    pipes = [each for each in targets if each.startswith("pipe:")]
    own_notes = [each for each in targets if each.startswith(notes)]
    others = ("socket:", "pipe:", "/proc/", notes)
    rest = [each for each in targets if not each.startswith(others)]
    assert targets[:3] == ["/dev/null", log, log]
    assert len(sockets) == 1
    assert len(pipes) == 1, "by which multiprocessing knows that the parent lives"
    assert len(own_notes) == 1, "of what it has begun, and no other process's"
    assert sorted(rest) == sorted(
        ["/dev/null", log, log, log, "/dev/null", str(harness.folder / "app.log")]
    )


def test_what_a_job_starts_has_the_standard_descriptors_only(harness: SlotHarness) -> None:
    finished = harness.run("descriptors.of.child")

    assert finished.message == str(["0", "1", "2", "3"])  # 3 is the folder that ls reads


def test_settings_and_secrets_are_not_in_the_environment(harness: SlotHarness) -> None:
    finished = harness.run("environment")

    names = {line.partition("=")[0] for line in finished.message.splitlines()}
    assert {name for name in names if name.startswith("WARREN_")} == {"WARREN_RUN_ID"}
    assert "PATH" in names
    assert "LD_BIND_NOW" not in names  # the zygote was started with it


def test_job_process_has_loaded_nothing_heavy(harness: SlotHarness) -> None:
    finished = harness.run("modules")

    loaded = set(finished.message.split())
    ours = {f"{package}.{name}" for package, names in LOADED.items() for name in names.split()}
    assert {name for name in loaded if name.startswith("warren.")} == ours
    assert not loaded & {"pika", "sqlalchemy", "pymysql", "structlog", "psutil", "flask", "click"}


def test_job_stands_on_its_own(harness: SlotHarness) -> None:
    finished = harness.run("standing")

    assert finished.message == repr((True, ["SIGPIPE", "SIGXFSZ"], set(), True, "", True))


def test_kernel_takes_a_job_before_the_executor_when_memory_runs_out(harness: SlotHarness) -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())

    assert int(harness.run("oom").message) == max(own, 500)


def test_random_numbers_differ_between_processes(harness: SlotHarness) -> None:
    first, second = (harness.run("random", process="fresh").message for _ in range(2))

    assert first != second


def test_file_that_the_handlers_opened_at_import_stays_open(harness: SlotHarness) -> None:
    harness.run("app.log")

    assert harness.note("app.log") == "to the application's own file\n"


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        ("family", "warren-job True True True"),
        ("pool", "[1, 2, 3]"),
        ("shared.memory", "freed"),
        ("workers.terminated", "-15"),
    ],
)
def test_job_may_use_multiprocessing(harness: SlotHarness, handler: str, message: str) -> None:
    finished = harness.run(handler)

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, message)


class TestLoading:
    @pytest.fixture
    def load(self, tmp_path: Path) -> Iterator[Callable[..., SlotHarness]]:
        floors: list[SlotHarness] = []

        def load(source: str, **options: object) -> SlotHarness:
            harness = SlotHarness(tmp_path, source, **options).open()
            floors.append(harness)
            return harness

        yield load
        for harness in floors:
            harness.close()

    def test_names_of_all_handlers_are_told(self, load: Callable[..., SlotHarness]) -> None:
        names = [f"handler.number.{at}" for at in range(1_000)]

        harness = load(f"for name in {names!r}:\n    job(name)(lambda context: None)")

        assert sorted(harness.slots.handlers) == sorted(names)

    def test_more_handlers_than_are_told_each_with_a_book_for_a_docstring_are_cut_not_refused(
        self, load: Callable[..., SlotHarness]
    ) -> None:
        harness = load(
            "def one(context): return 'ran'\n"
            "one.__doc__ = 'long ' * 200_000\n"
            f"for at in range({HANDLER_LIMIT + 1}): job(f'h{{at:05}}')(one)"
        )

        told = harness.slots.catalogue
        assert told is not None
        catalogue = catalogue_of(told.contents)
        assert (len(catalogue.handlers), catalogue.has_more) == (HANDLER_LIMIT, True)
        assert len(told.contents) <= CATALOGUE_BYTES
        assert all(one.about in ("long " * 40)[:ABOUT_LIMIT] for one in catalogue.handlers)
        assert harness.run(f"h{HANDLER_LIMIT:05}").message == "ran"

    @pytest.mark.parametrize("package", ["sql", "scheduler", "admin_web"])
    def test_package_beside_the_handlers_is_theirs(
        self, load: Callable[..., SlotHarness], tmp_path: Path, package: str
    ) -> None:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
        (tmp_path / package / "mine.py").write_text("WORD = 'mine'")

        harness = load(f"from {package}.mine import WORD\n@job('word')\ndef word(c): return WORD")

        assert harness.run("word").message == "mine"

    @pytest.mark.parametrize(
        ("source", "line"),
        [
            ("import nowhere_to_be_found", "ModuleNotFoundError: No module named"),
            ("1 / 0", "ZeroDivisionError: division by zero"),
            ("def (", "SyntaxError: "),
            ("raise SystemExit(3)", "SystemExit: 3"),
            ("@job('x')\ndef three(a, b, c): pass", "two with its params, got: (a, b, c)"),
            ("@job('x')\ndef two(a, b): pass", "handler 'x' to have a type, such as a dataclass"),
            (
                "import threading as t\nt.Timer(60, print).start()\n@job('x')\ndef x(c): pass",
                "importing the handlers started threads (Thread-1)",
            ),
        ],
    )
    def test_handlers_that_cannot_be_loaded_are_told(
        self, load: Callable[..., SlotHarness], source: str, line: str
    ) -> None:
        with pytest.raises(HandlersError) as caught:
            load(source)

        assert line in caught.value.line

    def test_a_typed_handler_tells_its_schema_and_gets_params(
        self, load: Callable[..., SlotHarness]
    ) -> None:
        harness = load(
            "import msgspec\nclass Params(msgspec.Struct):\n    'A day.'\n    parts: int = 1\n"
            "@job('x')\nasync def x(context, params: Params): return params.parts"
        )

        finished = [harness.run("x", param) for param in ('{"parts":3}', "", '{"parts":"3"}')]

        assert [one.result for one in finished] == ["3", "1", ""]
        assert finished[2].message == (
            "its param does not fit Params: Expected `int`, got `str` - at `$.parts`"
        )
        told = harness.slots.catalogue
        assert told is not None
        [facts] = catalogue_of(told.contents).handlers
        assert json.loads(facts.schema)["$defs"]["Params"]["description"] == "A day."

    def test_modules_of_the_same_name_in_two_folders_are_refused(
        self, load: Callable[..., SlotHarness], tmp_path: Path
    ) -> None:
        sources = []
        for folder in (tmp_path / "a", tmp_path / "b"):
            folder.mkdir()
            (folder / "util.py").write_text(f"WORD = {folder.name!r}\n")
            (folder / "handlers.py").write_text("def lazily():\n    from util import WORD\n")
            sources.append(str(folder / "handlers.py"))

        with pytest.raises(HandlersError) as caught:
            load("", sources=sources)

        assert f"{tmp_path}/a/util.py and {tmp_path}/b/util.py" in caught.value.line
        assert caught.value.traceback == ""

    def test_traceback_shows_the_users_lines(self, load: Callable[..., SlotHarness]) -> None:
        with pytest.raises(HandlersError) as caught:
            load("def inner():\n    raise KeyError('deep')\ninner()")

        assert "in inner" in caught.value.traceback
        assert "importlib" not in caught.value.traceback
        assert "executor/handlers/handler_registry.py" not in caught.value.traceback

    def test_import_that_hangs_can_be_given_up(self, load: Callable[..., SlotHarness]) -> None:
        with pytest.raises(HandlersError, match="stopped while it imported the handlers"):
            load("import time\ntime.sleep(600)", is_unwanted=lambda: True)

    @pytest.mark.parametrize(
        ("source", "how"),
        [
            ("import os\nos._exit(4)", "exit code 4"),
            ("import os\nos.abort()", r"SIGABRT \(signal 6\)"),
        ],
    )
    def test_import_that_ends_its_process_is_told(
        self, load: Callable[..., SlotHarness], source: str, how: str
    ) -> None:
        with pytest.raises(HandlersError, match=f"ended with {how}"):
            load(source)
