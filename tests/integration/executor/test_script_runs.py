"""Scripts of every language run as job processes: arguments, output, exit codes, environment."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import interpreters
from tests.support.processes import Process
from tests.support.slot_harness import SlotHarness, processes_holding
from warren.broker.messages import Finished, Outcome, ScriptLanguage
from warren.executor.fork_server.termination import MARK
from warren.executor.processes.script_files import INTERPRETERS

HANDLER = """
@job("echo")
def echo(context: JobContext) -> str:
    return context.param
"""

#: Each prints its arguments in brackets, then a line to each stream, and exits with 3.
TALKING = {
    "shell": """
printf '[%s]\\n' "$@"
echo problem >&2
echo after
exit 3
""",
    "python": """
import sys
for argument in sys.argv[1:]:
    print(f"[{argument}]")
print("problem", file=sys.stderr)
print("after")
sys.exit(3)
""",
    "nodejs": """
for (const argument of process.argv.slice(2)) console.log(`[${argument}]`);
console.error("problem");
console.log("after");
process.exit(3);
""",
    "php": """<?php
foreach (array_slice($argv, 1) as $argument) echo "[$argument]\\n";
fwrite(STDERR, "problem\\n");
echo "after\\n";
exit(3);
""",
    "groovy": """
args.each { println "[$it]" }
System.err.println("problem")
println("after")
System.exit(3)
""",
}
TALKING["powershell"] = TALKING["shell"]

HOSTILE_PARAM = "two  words \"and\" 'quotes' $HOME `id`; -rf * \\ grüße 😀\nnext line"

#: For each language a script that waits for its end beside a child of its own.
WAITING = {
    "shell": "sleep 60 & sleep 60",
    "python": "import subprocess; subprocess.run(['sleep', '60'])",
    "nodejs": "require('child_process').execFileSync('sleep', ['60'], {stdio: 'inherit'});",
    "php": "<?php system('sleep 60');",
    "powershell": "sleep 60",
}


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlotHarness]:
    folder = tmp_path_factory.mktemp("scripts")
    with pytest.MonkeyPatch.context() as patch:
        stub = interpreters.stand_in("pwsh", folder / "bin")
        patch.setenv("PATH", f"{stub}:{os.environ['PATH']}")
        patch.setenv("WARREN_SECRET", "not for the eyes of scripts at all")
        patch.setenv("MADE_FOR_JOBS", "grüße")
        patch.delenv("LC_ALL", raising=False)
        patch.delenv("LC_CTYPE", raising=False)
        patch.setenv("LANG", "C")
        harness = open_floor(folder)
    yield harness
    harness.close()


def open_floor(folder: Path, source: str = HANDLER, **options: Any) -> SlotHarness:
    chosen = {"script_folder": folder / "gluesource", "script_languages": list(ScriptLanguage)}
    return SlotHarness(folder, source, **(chosen | options)).open()


def start(harness: SlotHarness, source: str, language: str = "shell", **fields: Any) -> int:
    return harness.start("", script_language=language, script_source=source, **fields)


def run(harness: SlotHarness, source: str, language: str = "shell", **fields: Any) -> Finished:
    return harness.wait(start(harness, source, language, **fields), 30)


def alive(harness: SlotHarness, run_id: int) -> list[Process]:
    """Return the processes that hold a run's log open, however far from it they are."""
    return processes_holding(harness.log_path(run_id))


class TestEachLanguage:
    @pytest.mark.parametrize("language", TALKING)
    def test_arguments_output_and_exit_code_go_through(
        self, harness: SlotHarness, language: str
    ) -> None:
        interpreters.require(_program(language) if language != "powershell" else "bash")

        finished = run(
            harness, TALKING[language], language, param=HOSTILE_PARAM, shard_index=1, shard_total=3
        )

        log = f"[{HOSTILE_PARAM}]\n[1]\n[3]\nproblem\nafter\n"
        assert (finished.outcome, finished.message) == (Outcome.FAILED, "exit code 3")
        assert harness.log_of(finished.run_id) == log
        assert finished.log_tail == log

    @pytest.mark.parametrize("param", ["", "--version", "-c"])
    @pytest.mark.parametrize("language", ["shell", "python", "nodejs", "php"])
    def test_param_is_one_argument_also_when_it_is_empty_or_looks_like_an_option(
        self, harness: SlotHarness, language: str, param: str
    ) -> None:
        interpreters.require(_program(language))

        finished = run(harness, TALKING[language], language, param=param)

        assert finished.log_tail.startswith(f"[{param}]\n[0]\n[1]\n")

    @pytest.mark.parametrize("language", WAITING)
    def test_kill_ends_it_with_all_that_it_started(
        self, harness: SlotHarness, language: str
    ) -> None:
        interpreters.require(_program(language) if language != "powershell" else "bash")
        run_id = start(harness, WAITING[language], language)
        harness.turn(lambda: len(alive(harness, run_id)) >= 2)

        harness.slots.stop(run_id, "killed by ops")

        finished = harness.wait(run_id)
        assert (finished.outcome, finished.message) == (Outcome.KILLED, "killed by ops")
        assert alive(harness, run_id) == []

    @pytest.mark.parametrize(
        ("language", "source", "words"),
        [
            ("shell", "if then", "syntax error"),
            ("python", "def", "SyntaxError"),
            ("nodejs", "function {", "SyntaxError"),
            ("php", "<?php if (", "Parse error"),
        ],
    )
    def test_syntax_error_is_a_failure_that_the_log_explains(
        self, harness: SlotHarness, language: str, source: str, words: str
    ) -> None:
        interpreters.require(_program(language))

        finished = run(harness, source, language)

        assert finished.outcome is Outcome.FAILED
        assert re.fullmatch(r"exit code [1-9]\d*", finished.message)
        assert words in finished.log_tail


class TestEnds:
    def test_exit_code_zero_is_success(self, harness: SlotHarness) -> None:
        finished = run(harness, "echo done")

        assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "")
        assert finished.log_tail == "done\n"
        assert finished.started_at_ms <= finished.finished_at_ms

    def test_death_by_a_signal_is_told_in_words(self, harness: SlotHarness) -> None:
        finished = run(harness, "kill -SEGV $$")

        assert (finished.outcome, finished.message) == (Outcome.FAILED, "SIGSEGV (signal 11)")

    def test_timeout_ends_it_with_all_that_it_started(self, harness: SlotHarness) -> None:
        source = "sleep 60 & setsid sh -c 'echo begun; sleep 60'"
        run_id = start(harness, source, timeout_seconds=60)
        harness.turn(lambda: "begun" in harness.log_of(run_id))

        harness.loop.skip(60)

        finished = harness.wait(run_id)
        assert (finished.outcome, finished.message) == (Outcome.TIMED_OUT, "timed out after 60 s")
        assert finished.log_tail == "begun\n"
        assert alive(harness, run_id) == []

    def test_stubborn_script_is_killed_after_the_grace_time(self, tmp_path: Path) -> None:
        harness = open_floor(tmp_path, grace_seconds=0.5)
        run_id = start(harness, "trap '' TERM; echo begun; sleep 60; sleep 60")
        harness.turn(lambda: "begun" in harness.log_of(run_id))

        harness.slots.stop(run_id, "killed by ops")

        words = "killed by ops; still running 0.5 s after SIGTERM, killed with SIGKILL"
        finished = harness.wait(run_id)
        assert (finished.outcome, finished.message) == (Outcome.KILLED, words)
        assert alive(harness, run_id) == []
        harness.close()

    def test_script_may_clean_up_on_sigterm(self, harness: SlotHarness) -> None:
        source = "trap 'echo cleaned; exit 0' TERM; echo begun; while true; do sleep 0.05; done"
        run_id = start(harness, source)
        harness.turn(lambda: "begun" in harness.log_of(run_id))

        harness.slots.stop(run_id, "killed by ops")

        finished = harness.wait(run_id)
        assert (finished.outcome, finished.message) == (Outcome.KILLED, "killed by ops")
        assert finished.log_tail.endswith("cleaned\n")

    def test_kill_reaches_processes_of_other_sessions(self, harness: SlotHarness) -> None:
        source = "setsid sh -c 'trap \"\" TERM; sleep 60 & sleep 60' & echo begun; wait"
        run_id = start(harness, source)
        harness.turn(lambda: len(alive(harness, run_id)) >= 4)

        harness.slots.stop(run_id, "killed by ops")

        assert harness.wait(run_id).outcome is Outcome.KILLED
        assert alive(harness, run_id) == []

    def test_what_a_script_leaves_behind_ends_with_it(self, harness: SlotHarness) -> None:
        finished = run(harness, "setsid sleep 60 & sleep 60 & echo bye")

        assert (finished.outcome, finished.log_tail) == (Outcome.SUCCEEDED, "bye\n")
        assert alive(harness, finished.run_id) == []

    @pytest.mark.parametrize(
        ("left", "message"),
        [
            (
                "nohup sleep 60 >/dev/null 2>&1 & begun",
                "(ended 1 process that it left running: sleep)",
            ),
            (
                "sleep 60 & begun; setsid sleep 61 & begun",
                "(ended 2 processes that it left running: sleep, sleep)",
            ),
        ],
    )
    def test_its_message_names_what_it_left_running(
        self, harness: SlotHarness, left: str, message: str
    ) -> None:
        begun = "begun() { until grep -q sleep /proc/$!/comm; do :; done; }"

        finished = run(harness, f"{begun}\n{left}")

        assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, message)

    def test_kill_at_once_after_the_start_ends_it(self, harness: SlotHarness) -> None:
        run_id = start(harness, "sleep 60")

        harness.slots.stop(run_id, "killed by ops")

        finished = harness.wait(run_id)
        assert (finished.outcome, finished.message) == (Outcome.KILLED, "killed by ops")

    def test_dead_zygote_takes_its_scripts_along(self, tmp_path: Path) -> None:
        harness = open_floor(tmp_path)
        run_id = start(harness, "echo begun; sleep 60")
        harness.turn(lambda: "begun" in harness.log_of(run_id))

        os.kill(harness.zygote.pid, signal.SIGKILL)

        finished = harness.wait(run_id)
        assert (finished.outcome, finished.message) == (
            Outcome.FAILED,
            "the process that starts jobs on its executor died",
        )
        assert alive(harness, run_id) == []
        assert list((tmp_path / "gluesource").iterdir()) == []
        harness.close()

    def test_handlers_go_on_in_their_own_processes(self, harness: SlotHarness) -> None:
        before = harness.run("echo", "one")
        run(harness, "true")

        after = harness.run("echo", "two")

        assert (before.message, after.message) == ("one", "two")


class TestSurroundings:
    def test_environment_tells_the_run_and_no_secret(self, harness: SlotHarness) -> None:
        finished = run(
            harness, "env", attempt=2, shard_index=1, shard_total=3, kind="RETRY", param="p"
        )

        found = dict(line.split("=", 1) for line in harness.log_of(finished.run_id).splitlines())
        ours = {name: value for name, value in found.items() if name.startswith("WARREN_")}
        assert ours == {
            "WARREN_RUN_ID": str(finished.run_id),
            "WARREN_JOB_ID": "7",
            "WARREN_KIND": "RETRY",
            "WARREN_ATTEMPT": "2",
            "WARREN_SHARD_INDEX": "1",
            "WARREN_SHARD_TOTAL": "3",
            "WARREN_SCHEDULED_AT": "2023-11-14T22:13:20.500+00:00",
            "WARREN_RUN_DATE": "2023-11-14",
            # What is left of a crashed executor's runs is found by it.
            MARK: ours.get(MARK),
        }
        # A Python that starts under LANG=C sets LC_CTYPE for what it starts.
        assert found.get("LC_CTYPE", found["LANG"]) == "C.UTF-8"
        assert found["MADE_FOR_JOBS"] == "grüße"

    def test_script_has_the_standard_descriptors_only(self, harness: SlotHarness) -> None:
        source = "import os; print({each: os.readlink(f'/proc/self/fd/{each}') for each in range(9)"
        source += " if os.path.exists(f'/proc/self/fd/{each}')})"

        finished = run(harness, source, "python")

        log = str(harness.log_path(finished.run_id))
        assert finished.log_tail == f"{ {0: '/dev/null', 1: log, 2: log} }\n"

    def test_signals_act_as_in_any_program(self, harness: SlotHarness) -> None:
        finished = run(harness, "grep -E 'Sig(Blk|Ign)' /proc/self/status; yes | head -n 1")

        blocked, ignored, printed = finished.log_tail.splitlines()
        # Signals 32 and 33 are the C library's own, as whoever started all this had them.
        assert int(blocked.removeprefix("SigBlk:"), 16) & ~(0b11 << 31) == 0
        assert int(ignored.removeprefix("SigIgn:"), 16) & ~(0b11 << 31) == 0
        assert printed == "y"

    def test_source_is_a_private_file_that_goes_with_the_run(self, harness: SlotHarness) -> None:
        finished = run(harness, 'stat -c %a "$0" "$(dirname "$0")"; echo "$0"')

        *modes, path = finished.log_tail.splitlines()
        assert modes == ["600", "700"]
        assert Path(path).name == f"job7_run{finished.run_id}.sh"
        assert not Path(path).exists()

    def test_longest_source_runs(self, harness: SlotHarness) -> None:
        source = "# x\n" * 131_000 + "echo end\n"

        finished = run(harness, source)

        assert finished.log_tail == "end\n"

    def test_silent_script_leaves_no_log(self, harness: SlotHarness) -> None:
        finished = run(harness, "true")

        assert not harness.log_path(finished.run_id).exists()

    def test_binary_output_is_shown_as_text(self, harness: SlotHarness) -> None:
        finished = run(harness, "printf '\\377\\000\\n'")

        assert finished.log_tail == "\ufffd\0\n"

    def test_log_is_capped(self, tmp_path: Path) -> None:
        harness = open_floor(tmp_path, cap_bytes=100_000)

        finished = run(harness, "yes | head -c 5000000")

        assert finished.outcome is Outcome.SUCCEEDED
        assert harness.log_path(finished.run_id).stat().st_size <= 100_000
        harness.close()


class TestRefusals:
    def test_missing_interpreter_is_named(self, tmp_path: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(tmp_path))
            harness = open_floor(tmp_path)

        finished = run(harness, "true", "nodejs")

        words = "no interpreter: 'node' is not on the PATH of this executor"
        assert (finished.outcome, finished.message) == (Outcome.FAILED, words)
        assert not harness.log_path(finished.run_id).exists()
        harness.close()

    def test_interpreter_that_cannot_be_started_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "node").mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(tmp_path))
            harness = open_floor(tmp_path)

        finished = run(harness, "true", "nodejs")

        assert finished.message == "cannot start 'node': Permission denied"
        harness.close()

    @pytest.mark.parametrize(
        ("languages", "words"),
        [
            ((), "scripts are not allowed here: WARREN_GLUE is off"),
            (
                ("python", "php"),
                "shell scripts are not allowed here: WARREN_GLUE is php,python",
            ),
        ],
    )
    def test_language_that_is_not_allowed_is_refused(
        self, tmp_path: Path, languages: tuple[str, ...], words: str
    ) -> None:
        harness = open_floor(tmp_path, script_languages=languages)

        finished = run(harness, f"touch {tmp_path}/ran")

        assert (finished.outcome, finished.message) == (Outcome.FAILED, words)
        assert not (tmp_path / "ran").exists()
        harness.close()

    def test_language_that_nobody_knows_is_refused(self, harness: SlotHarness) -> None:
        assert run(harness, "true", "perl").message == "unknown script language 'perl'"

    def test_param_with_a_nul_is_refused(self, harness: SlotHarness) -> None:
        finished = run(harness, "true", param="a\0b")

        assert finished.outcome is Outcome.FAILED
        assert finished.message == "its param contains a NUL, which cannot be passed to a program"

    def test_folder_that_cannot_be_written_fails_the_run(self, tmp_path: Path) -> None:
        harness = open_floor(tmp_path, script_folder=Path("/proc/nowhere"))

        finished = run(harness, "true")

        assert finished.outcome is Outcome.FAILED
        assert finished.message.startswith("cannot write its script: ")
        harness.close()

    def test_what_a_crash_left_is_cleared_at_the_start(self, tmp_path: Path) -> None:
        left = tmp_path / "gluesource" / "job1_run1.sh"
        left.parent.mkdir()
        left.write_text("echo of an earlier life")

        harness = open_floor(tmp_path)

        assert not left.exists()
        harness.close()


#: Makes the zygote that imports it report every exit as one of a later version may.
OF_ANOTHER_VERSION = r"""
from warren.executor.fork_server import frames
encode = frames.encode

def encode_as_later(frame):
    if isinstance(frame, frames.Exited):
        said = b'{"type":"Exited","number":%d,"error":"no luck","why":"{\\"code\\":\\"NEW\\"}"}'
        return said % frame.number
    return encode(frame)

frames.encode = encode_as_later
"""


def test_script_that_a_zygote_of_another_version_did_not_start_has_failed(tmp_path: Path) -> None:
    harness = open_floor(tmp_path, source=HANDLER + OF_ANOTHER_VERSION)

    finished = run(harness, "true")

    assert (finished.outcome, finished.message) == (Outcome.FAILED, "no luck")
    harness.close()


def _program(language: str) -> str:
    return INTERPRETERS[ScriptLanguage(language)].program
