"""Jobs run as another user and within limits, where their executor was told so."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.other_user import MARK, ROOT, closed_folders, pytest_in_the_open
from tests.support.slot_harness import DAY, SlotHarness
from warren.broker.messages import Outcome
from warren.executor.errors import UserUnusable
from warren.executor.fork_server.confinement import Confinement, JobLimits, JobUser
from warren.executor.handlers.handler_registry import HandlersError

SOURCE = r"""
import json, os, resource, signal, subprocess, sys, time

@job("who")
def who(context):
    print("who am I")
    return json.dumps({
        "ids": [*os.getresuid(), *os.getresgid(), *os.getgroups()],
        "names": [os.environ[name] for name in ("USER", "LOGNAME", "HOME")],
        "child": subprocess.check_output(["id", "-u"], text=True).strip(),
    })

@job("touch")
def touch(context):
    return attempt(lambda: open(context.param, "rb").read(1))

@job("list")
def list_folder(context):
    return attempt(lambda: os.listdir(context.param))

@job("signal")
def send_signal(context):
    return attempt(lambda: os.kill(int(context.param), signal.SIGCONT))

def attempt(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"

@job("sleep")
def sleep(context):
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)

@job("print")
def print_much(context):
    print("x" * int(context.param))

@job("allocate")
def allocate(context):
    return len(bytearray(int(context.param)))

@job("compute")
def compute(context):
    wanted = time.process_time() + float(context.param)
    while time.process_time() < wanted:
        pass
    return str(os.getpid())

@job("write")
def write(context):
    import tempfile
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * int(context.param))
        file.flush()

@job("open")
def open_files(context):
    return len([open("/dev/null") for _ in range(int(context.param))])

@job("fork")
def fork(context):
    return len([subprocess.Popen(["true"]).wait() for _ in range(int(context.param))])
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user can get to, which pytest's own are not."""
    path = Path(tempfile.mkdtemp(prefix="warren-confinement-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def nobody() -> JobUser:
    if os.geteuid() != 0:
        pytest.skip("only root can run jobs as another user")
    if closed_folders():
        pytest.skip("nobody may not read what the tests run from; they run in the open, see below")
    return JobUser.find("nobody")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as another user")
@pytest.mark.skipif("capabilities" in os.environ.get(MARK, ""), reason="this is that run")
@pytest.mark.release
def test_all_of_it_holds_with_the_capabilities_of_the_unit() -> None:
    unit = (ROOT / "deploy/systemd/warren-executor@.service").read_text()
    [line] = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    capabilities = [name.removeprefix("CAP_").lower() for name in line.split()]

    done = pytest_in_the_open(__file__, capabilities=capabilities)

    assert capabilities

    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 1 skipped" in done.stdout  # this one, and no other


class TestAnotherUser:
    @pytest.fixture
    def harness(self, folder: Path, nobody: JobUser) -> Iterator[SlotHarness]:
        state = folder / "state" / "exec-1"
        state.mkdir(parents=True, mode=0o700)
        (state / "journal").touch(mode=0o600)
        harness = SlotHarness(
            folder,
            SOURCE,
            cap_bytes=50_000,
            confinement=Confinement(user=nobody),
            script_folder=state / "gluesource",
            script_languages=("shell", "python"),
        ).open()
        yield harness
        harness.close()

    def test_handlers_and_what_they_start_are_that_users(
        self, harness: SlotHarness, nobody: JobUser
    ) -> None:
        finished = harness.run("who")

        found = json.loads(finished.message)
        assert set(found["ids"][:3]) == {nobody.uid}
        assert set(found["ids"][3:]) == {nobody.gid}
        assert found["names"] == ["nobody", "nobody", nobody.home]
        assert found["child"] == str(nobody.uid)
        assert "who am I" in harness.log_of(finished.run_id)
        assert finished.log_tail == harness.log_of(finished.run_id)

    def test_so_are_scripts(self, harness: SlotHarness, nobody: JobUser) -> None:
        finished = harness.run("", script_language="shell", script_source="id -u; id -G")

        assert finished.outcome is Outcome.SUCCEEDED, finished.message
        assert harness.log_of(finished.run_id).split() == [str(nobody.uid), str(nobody.gid)]

    def test_files_and_processes_of_the_executor_are_out_of_reach(
        self, harness: SlotHarness, folder: Path
    ) -> None:
        state = folder / "state" / "exec-1"

        assert harness.run("touch", str(state / "journal")).message == "PermissionError"
        assert harness.run("list", str(state)).message == "PermissionError"
        assert harness.run("list", str(folder / "logs")).message == "PermissionError"
        assert harness.run("touch", f"/proc/{os.getpid()}/environ").message == "PermissionError"
        assert harness.run("signal", str(os.getpid())).message == "PermissionError"
        assert harness.run("list", str(folder / "logs" / DAY)).message == "done"

    def test_runs_are_killed_with_all_that_they_started(self, harness: SlotHarness) -> None:
        run = harness.start("sleep", timeout_seconds=0.5)

        finished = harness.wait(run)

        assert finished.outcome is Outcome.TIMED_OUT
        harness.turn(lambda: not harness.job_processes())

    def test_logs_are_cut_at_their_limit(self, harness: SlotHarness) -> None:
        finished = harness.run("print", "200000")

        assert finished.outcome is Outcome.SUCCEEDED
        assert harness.log_path(finished.run_id).stat().st_size <= 50_000

    def test_a_days_folder_from_before_is_opened(self, harness: SlotHarness, folder: Path) -> None:
        (folder / "logs" / DAY).mkdir(mode=0o750)

        finished = harness.run("who")

        assert "who am I" in harness.log_of(finished.run_id)

    def test_a_dead_zygote_is_replaced_by_one_of_that_user(
        self, harness: SlotHarness, nobody: JobUser
    ) -> None:
        os.kill(harness.zygote.pid, 9)
        harness.turn(lambda: harness.ready_count)

        assert json.loads(harness.run("who").message)["child"] == str(nobody.uid)


def test_folder_that_the_user_cannot_get_to_stops_the_start(folder: Path, nobody: JobUser) -> None:
    (folder / "logs").mkdir(mode=0o700)
    harness = SlotHarness(folder, SOURCE, confinement=Confinement(user=nobody))

    with pytest.raises(HandlersError, match=f"nobody cannot get to {folder}/logs: chmod o.x"):
        harness.open()

    harness.loop.close()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no-such-user", "there is no user 'no-such-user'"),
        ("root", "root, which can read everything"),
    ],
)
def test_user_that_cannot_be_is_told(name: str, words: str) -> None:
    with pytest.raises(UserUnusable, match=words):
        JobUser.find(name)


def test_only_root_can_run_jobs_as_another_user(nobody: JobUser) -> None:
    code = (
        "import os\n"
        "from warren.executor.fork_server.confinement import JobUser\n"
        f"os.setuid({nobody.uid})\n"
        "try: JobUser.find('daemon')\n"
        "except Exception as error: print(error)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "only an executor that root starts can run jobs as 'daemon'\n"


class TestLimits:
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[SlotHarness]:
        text = "memory=1G, cpu=1, file_size=64K, open_files=64"
        limits = Confinement(limits=JobLimits.parse(text))
        harness = SlotHarness(
            tmp_path,
            SOURCE,
            confinement=limits,
            script_folder=tmp_path / "scripts",
            script_languages=("shell",),
        ).open()
        yield harness
        harness.close()

    @pytest.mark.parametrize(
        ("handler", "good", "bad", "words"),
        [
            ("allocate", "1000", "2000000000", "MemoryError"),
            ("open", "10", "100", "Too many open files"),
            ("write", "1000", "100000", "File too large"),
        ],
    )
    def test_what_is_over_fails_in_the_job(
        self, harness: SlotHarness, handler: str, good: str, bad: str, words: str
    ) -> None:
        assert harness.run(handler, good).outcome is Outcome.SUCCEEDED

        finished = harness.run(handler, bad)

        assert finished.outcome is Outcome.FAILED
        assert words in finished.message

    def test_too_much_computing_ends_the_process(self, harness: SlotHarness) -> None:
        finished = harness.run("compute", "60")

        assert finished.outcome is Outcome.FAILED
        assert "SIGXCPU" in finished.message

    def test_each_run_has_its_own_time_for_computing(self, harness: SlotHarness) -> None:
        runs = [harness.run("compute", "0.6") for _ in range(4)]

        assert {run.outcome for run in runs} == {Outcome.SUCCEEDED}
        assert len({run.message for run in runs}) == 1  # one process, 2.4 s in all

    def test_scripts_have_them_too(self, harness: SlotHarness) -> None:
        source = "ulimit -n; ulimit -v; ulimit -f; ulimit -St"

        finished = harness.run("", script_language="shell", script_source=source)

        assert harness.log_of(finished.run_id).split()[:3] == ["64", str(2**20), "64"]

    def test_a_script_that_ignores_its_end_of_computing_is_killed(
        self, harness: SlotHarness
    ) -> None:
        source = "trap '' XCPU; while :; do :; done"

        finished = harness.run("", script_language="shell", script_source=source)

        assert finished.outcome is Outcome.FAILED
        assert "SIGKILL" in finished.message

    def test_processes_are_counted_for_another_user(self, folder: Path, nobody: JobUser) -> None:
        limits = JobLimits(processes=1)
        harness = SlotHarness(
            folder, SOURCE, confinement=Confinement(user=nobody, limits=limits)
        ).open()

        finished = harness.run("fork", "1")
        harness.close()

        assert finished.outcome is Outcome.FAILED
        assert "BlockingIOError" in finished.message
