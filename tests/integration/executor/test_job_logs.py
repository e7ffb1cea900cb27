"""The log of a run: capped, complete in all that fits, and never a reason to fail a run."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.slot_harness import DAY, SlotHarness, processes_holding
from warren.broker.messages import LOG_TAIL_BYTES, Outcome

SOURCE = r"""
import io, logging, os, resource, subprocess, sys, time

@job("print")
def print_it(context):
    print(context.param)
    return "done"

@job("silent")
def silent(context):
    return "done"

@job("megabytes")
def megabytes(context):
    for at in range(int(context.param)):
        os.write(1, b"%07d " % at * 124 + b"\n" * 1008 if at % 8 == 0 else b"x" * 999_999 + b"\n")
    return "done"

@job("pours")
def pours(context):
    while not os.path.exists(context.param):
        os.write(1, b"y" * 999 + b"\n")
        time.sleep(0.0005)
    print("the end")
    return "done"

@job("one.line")
def one_line(context):
    sys.stdout.write("z" * 5_000_000)
    return "done"

@job("binary")
def binary(context):
    os.write(1, bytes(range(256)) + b"\n\x1b[31mred\x1b[0m\x00\n")
    sys.stdout.buffer.write(b"\xff\xfe raw\n")
    print("surrogate", os.fsdecode(b"\xe9"))
    return "done"

@job("closes")
def closes(context):
    print("before")
    sys.stdout.close()
    os.close(1)
    os.close(2)
    return "done"

@job("rewraps")
def rewraps(context):
    print("before")
    stream = getattr(sys, context.param)
    setattr(sys, context.param, io.TextIOWrapper(stream.detach(), encoding="utf-8"))
    if context.param != "stderr":
        print("after")
    return os.getpid()

@job("deletes.stdout")
def deletes_stdout(context):
    print("before")
    del sys.stdout
    sys.stderr = {}
    return "done"

@job("removes.log")
def removes_log(context):
    print("gone")
    os.unlink(os.readlink("/proc/self/fd/1"))
    return "done"

@job("full.disk")
def full_disk(context):
    print("fits")
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
    for _ in range(1000):
        print("does not fit any more")
    logging.getLogger().error("nor does this")
    context.log("nor this")
    return "done"

@job("unflushed")
def unflushed(context):
    print("no line feed", end="")
    return "done"

@job("dies")
def dies(context):
    print("last words")
    os._exit(3)

def goodbye():
    print("goodbye")

@job("says.goodbye", destroy=goodbye)
def says_goodbye(context):
    print("hello")
    return "done"

@job("late.output")
def late_output(context):
    subprocess.Popen(["sh", "-c", "echo from a child; sleep 60"])
    while not os.fstat(1).st_size:
        time.sleep(0.005)
    return "done"
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SlotHarness]:
    harness = SlotHarness(tmp_path, SOURCE, count=1).open()
    yield harness
    harness.close()


@pytest.fixture
def make_floor(tmp_path: Path) -> Iterator[Callable[..., SlotHarness]]:
    floors: list[SlotHarness] = []

    def make(source: str = SOURCE, **options: object) -> SlotHarness:
        floors.append(SlotHarness(tmp_path, source, **options).open())
        return floors[-1]

    yield make
    for harness in floors:
        harness.close()


def test_log_over_its_cap_is_cut_back_at_the_end(make_floor: Callable[..., SlotHarness]) -> None:
    harness = make_floor(cap_bytes=100_000)

    finished = harness.run("megabytes", "9")

    log = harness.log_of(finished.run_id)
    assert finished.outcome is Outcome.SUCCEEDED
    assert harness.log_path(finished.run_id).stat().st_size == 100_000
    assert log.startswith("0000000 0000000")
    assert log.endswith("… [the log is cut here: over 100,000 bytes]\n")


def test_tail_is_what_was_written_last_even_where_the_log_is_cut(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(cap_bytes=100_000)

    finished = harness.run("megabytes", "9")

    assert len(finished.log_tail) == LOG_TAIL_BYTES
    assert finished.log_tail.endswith("\n" * 100)


def test_log_is_cut_back_while_its_run_goes_on(make_floor: Callable[..., SlotHarness]) -> None:
    harness = make_floor(cap_bytes=200_000)

    enough = harness.folder / "enough"
    run_id = harness.start("pours", str(enough))
    harness.turn(lambda: "the log is cut here" in harness.log_of(run_id), 60)
    enough.touch()
    finished = harness.wait(run_id)

    assert finished.outcome is Outcome.SUCCEEDED
    assert harness.log_path(run_id).stat().st_size <= 200_000
    assert finished.log_tail.endswith("the end\n")


def test_gigabyte_of_output_leaves_the_memory_of_the_executor_flat(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(cap_bytes=1_000_000)
    harness.run("print")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    finished = harness.run("megabytes", "1000", seconds=60)

    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert finished.outcome is Outcome.SUCCEEDED
    assert harness.log_path(finished.run_id).stat().st_size == 1_000_000
    assert grown_kb < 20_000


def test_log_that_was_cut_is_not_the_next_runs(make_floor: Callable[..., SlotHarness]) -> None:
    harness = make_floor(cap_bytes=1_000)
    harness.run("one.line")

    finished = harness.run("print", "small")

    assert harness.log_of(finished.run_id) == "small\n"


def test_long_line_is_read_as_one_line_that_is_cut(harness: SlotHarness) -> None:
    finished = harness.run("one.line")

    lines = harness.logs.read(finished.run_id, DAY, 1)

    assert (lines.from_line, lines.to_line, lines.is_end) == (1, 1, True)
    assert len(lines.text) < 20_000
    assert lines.text.endswith("[line cut]")


def test_binary_output_does_no_harm(harness: SlotHarness) -> None:
    finished = harness.run("binary")

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "done")
    assert harness.log_path(finished.run_id).read_bytes().startswith(bytes(range(256)))
    assert "surrogate \\udce9" in finished.log_tail


def test_closed_output_does_no_harm(harness: SlotHarness) -> None:
    finished = [harness.run("closes") for _ in range(2)]

    assert [each.message for each in finished] == ["done", "done"]
    assert [each.log_tail for each in finished] == ["before\n", "before\n"]


@pytest.mark.parametrize(
    ("stream", "log"),
    [("stdout", "before\nafter\n"), ("stdin", "before\nafter\n"), ("stderr", "before\n")],
)
def test_stream_that_a_run_wraps_anew_does_no_harm(
    harness: SlotHarness, stream: str, log: str
) -> None:
    finished = [harness.run("rewraps", stream, job_id=50) for _ in range(3)]

    assert {each.outcome for each in finished} == {Outcome.SUCCEEDED}
    assert len({each.message for each in finished}) == 1, "one process serves them all"
    assert [each.log_tail for each in finished] == [log] * 3


def test_streams_that_the_handlers_wrap_anew_at_their_import_do_no_harm(
    make_floor: Callable[..., SlotHarness],
) -> None:
    wrap = "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8')\n"
    harness = make_floor(source=SOURCE + wrap)

    finished = [harness.run("print", "text") for _ in range(2)]

    assert [(each.message, each.log_tail) for each in finished] == [("done", "text\n")] * 2


def test_deleted_stdout_does_no_harm(harness: SlotHarness) -> None:
    finished = [harness.run("deletes.stdout") for _ in range(2)]

    assert [each.message for each in finished] == ["done", "done"]
    assert [each.log_tail for each in finished] == ["before\n", "before\n"]


def test_log_that_its_run_removes_does_no_harm(harness: SlotHarness) -> None:
    assert harness.run("removes.log").message == "done"
    assert harness.run("print", "next").log_tail == "next\n"


def test_full_disk_costs_output_and_is_told_but_fails_no_run(harness: SlotHarness) -> None:
    finished = harness.run("full.disk")

    assert finished.outcome is Outcome.SUCCEEDED
    assert finished.message == "done (its log is incomplete: File too large)"
    assert harness.log_of(finished.run_id).startswith("fits\n")


def test_missing_log_folder_is_made_again(harness: SlotHarness) -> None:
    for handler in ("print", "silent", "silent", "print"):
        harness.run(handler, "text")
        _remove(harness.folder / "logs")

    assert harness.run("print", "text").log_tail == "text\n"


@pytest.mark.parametrize("handler", ["print", "silent"])
def test_log_folder_that_cannot_be_used_is_told_but_fails_no_run(
    harness: SlotHarness, handler: str
) -> None:
    (harness.folder / "logs").write_text("a file stands where the folder belongs")

    finished = harness.run(handler)

    assert finished.outcome is Outcome.SUCCEEDED
    assert finished.message == "done (its log is missing: Not a directory)"


def test_an_idle_process_holds_no_log_open(harness: SlotHarness) -> None:
    run_id = harness.run("print", "text").run_id

    idle = harness.job_processes()
    held = processes_holding(harness.log_path(run_id))

    assert idle
    assert held == []


def test_what_an_idle_process_says_at_its_end_is_in_its_last_log(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(idle_seconds=0.1)

    run_id = harness.run("says.goodbye").run_id
    harness.turn(lambda: not harness.job_processes())

    assert harness.log_of(run_id) == "hello\ngoodbye\n"


def test_a_deleted_log_is_not_made_again_by_an_idle_process(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(idle_seconds=0.1)
    run_id = harness.run("says.goodbye").run_id

    harness.log_path(run_id).unlink()
    harness.turn(lambda: not harness.job_processes())

    assert not harness.log_path(run_id).exists()


def test_log_that_is_a_link_is_not_followed(harness: SlotHarness) -> None:
    path = harness.log_path(1)
    path.parent.mkdir(parents=True)
    path.symlink_to(harness.folder / "precious")

    finished = harness.run("print", "text")

    assert finished.message.startswith("done (its log is missing: ")
    assert not (harness.folder / "precious").exists()
    assert harness.logs.read(1, DAY, 1).text == ""


def test_output_without_line_feed_is_flushed(harness: SlotHarness) -> None:
    finished = harness.run("unflushed")

    assert finished.log_tail == harness.log_of(finished.run_id) == "no line feed"


def test_tail_of_a_process_that_died_is_read_from_its_file(harness: SlotHarness) -> None:
    finished = harness.run("dies")

    assert finished.outcome is Outcome.FAILED
    assert finished.log_tail == "last words\n"


def test_output_of_left_over_children_is_in_the_log(harness: SlotHarness) -> None:
    finished = harness.run("late.output")

    assert finished.log_tail == "from a child\n"


def test_logs_belong_to_the_executor_alone(harness: SlotHarness) -> None:
    finished = harness.run("print", "secret")

    path = harness.log_path(finished.run_id)
    assert path.stat().st_mode & 0o007 == 0
    assert path.parent.stat().st_mode & 0o007 == 0


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def test_the_log_of_a_run_that_goes_on_is_not_cleaned_away(harness: SlotHarness) -> None:
    old = harness.folder / "logs" / DAY / "0.log"
    enough = harness.folder / "enough"
    run_id = harness.start("pours", str(enough))
    harness.turn(lambda: harness.log_of(run_id))
    old.write_text("of a run that is over")

    assert harness.logs.clean(1) == 0
    assert not old.exists()

    enough.touch()
    harness.wait(run_id)
    assert harness.log_of(run_id).endswith("the end\n")
    harness.close()
    assert harness.logs.clean(1) == 1
