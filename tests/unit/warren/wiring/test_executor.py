"""What the settings of an executor say reaches its slots, job processes and logs."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from warren.errors import SettingsError
from warren.executor.disk import Space
from warren.executor.fork_server.confinement import JobLimits
from warren.executor.processes.interface import SlotOptions
from warren.executor.run_logs import RunLogs
from warren.settings.settings import Settings
from warren.wiring.executor import count_spares, make_confinement, make_run_logs, make_slots
from warren.wiring.processes import Signals

GIGABYTE = 1_000_000_000


def options_of(tmp_path: Path, **values: Any) -> SlotOptions:
    settings = Settings(**values)
    factory = make_slots(settings, ["handlers.py"], RunLogs(tmp_path), signals=Signals())
    assert isinstance(factory, partial)
    [options] = [each for each in factory.args if isinstance(each, SlotOptions)]
    return options


def test_unless_it_is_told_an_executor_keeps_as_many_idle_processes_as_fit(tmp_path: Path) -> None:
    options = options_of(tmp_path, slots=6)

    assert (options.count, options.idle_count, options.process) == (6, None, "job")
    assert (options.idle_seconds, options.runs_per_process) == (90, 1_000)


def test_numbers_of_processes_are_as_the_settings_say(tmp_path: Path) -> None:
    options = options_of(tmp_path, slots=2, idle_processes=3, process="fresh", grace_seconds=7)

    assert (options.count, options.idle_count, options.process) == (2, 3, "fresh")
    assert options.grace_seconds == 7


def test_an_executor_has_a_spare_process_a_slot_up_to_a_limit_and_up_to_what_is_allowed() -> None:
    none = JobLimits()

    assert count_spares(Settings(slots=6), none, None) == 6
    assert count_spares(Settings(slots=40), none, None) == 16
    assert count_spares(Settings(slots=6), none, 10) == 3
    assert count_spares(Settings(slots=6), JobLimits(processes=9), None) == 2
    assert count_spares(Settings(slots=6, spare_processes=0), none, 2) == 0


@pytest.mark.parametrize(
    ("processes", "host", "limit"),
    [
        (0, 12, "pids.max of the control group, or ulimit -u,"),
        (12, 20, "processes in WARREN_JOB_LIMITS"),
    ],
)
def test_more_spare_processes_than_are_allowed_are_refused_by_the_name_of_the_limit(
    processes: int, host: int, limit: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        count_spares(Settings(slots=6, spare_processes=9), JobLimits(processes=processes), host)

    [line] = [line for line in str(refused.value).splitlines() if "SPARE" in line]
    assert line.endswith(
        f"WARREN_SPARE_PROCESSES: 9 beside 6 slots are more than {limit} allows: "
        "12 processes, one of which forks the others"
    )


def test_jobs_have_the_limits_of_the_settings() -> None:
    limited = make_confinement(Settings(job_limits="memory=2G, cpu=600, open_files=1024"))

    assert limited.limits == JobLimits(memory=2 << 30, cpu=600, open_files=1024)
    assert make_confinement(Settings()).limits == JobLimits()


def test_logs_keep_the_reserve_of_the_settings_free(tmp_path: Path) -> None:
    disk = Space(size=1_000 * GIGABYTE, free=500 * GIGABYTE)

    named = make_run_logs(Settings(log_dir=tmp_path, log_reserve="3GB"))
    usual = make_run_logs(Settings(log_dir=tmp_path))

    assert named.reserve.of(disk) == 3 * GIGABYTE
    assert usual.reserve.of(disk) == 64_000_000
