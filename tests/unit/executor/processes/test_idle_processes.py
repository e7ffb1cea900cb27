"""How many idle processes fit, on machines of which the kernel tells this and that."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from warren.executor.container import Host
from warren.executor.processes.job_processes import IdleLimit

MB, GB = 2**20, 2**30
PIDS = (11, 12, 13)

Machine = Callable[..., Host]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a host with so much memory, files of control groups, and 2 MB a process."""

    def make(
        available: int, groups: str = "0::/", nofile: int = 100_000, **files: str | int
    ) -> Host:
        monkeypatch.setattr(
            resource, "getrlimit", lambda which: (nofile, nofile) if which == 7 else (-1, -1)
        )
        written = {
            "proc/meminfo": f"MemTotal: 99 kB\nMemAvailable: {available // 1024} kB\n",
            "proc/self/cgroup": groups,
            **{f"proc/{n}/smaps_rollup": _ROLLUP for n in PIDS},
            **{f"sys/fs/cgroup/{name}": str(text) for name, text in files.items()},
        }
        for name, text in written.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return Host(tmp_path)

    return make


_ROLLUP = "Rss: 9000 kB\nPrivate_Clean: 48 kB\nPrivate_Dirty: 2000 kB\nPrivate_Hugetlb: 0 kB\n"


def limit_of(host: Host, *, fixed: int | None = None, spares: int = 0, processes: int = 0) -> int:
    limit = IdleLimit(fixed, slots=8, spares=spares, job_processes=processes, host=host)
    limit.look(PIDS)
    return limit.most


def test_idle_processes_take_a_quarter_of_what_the_host_has_available(machine: Machine) -> None:
    assert limit_of(machine(8 * GB)) == (8 * GB + 6 * MB) // 4 // (2 * MB)


def test_idle_processes_take_a_quarter_of_the_control_groups_limit(machine: Machine) -> None:
    files = {"a/b/memory.max": "max", "a/memory.max": GB, "a/memory.current": 100 * MB}

    assert limit_of(machine(8 * GB, "0::/a/b", **files)) == 128


def test_the_older_control_groups_are_read_too(machine: Machine) -> None:
    files = {
        "memory/a/memory.limit_in_bytes": 2**63 - 4096,
        "memory/memory.limit_in_bytes": GB,
        "memory/memory.usage_in_bytes": 100 * MB,
    }

    assert limit_of(machine(8 * GB, "4:memory:/a\n0::/", **files)) == 128


def test_idle_processes_go_when_memory_gets_short(machine: Machine) -> None:
    def with_used(used: int) -> int:
        files = {"memory.max": 1000 * MB, "memory.current": used * MB}
        return limit_of(machine(8 * GB, **files))

    # Three hold 6 MB, and 100 MB are to stay free.
    assert [with_used(one) for one in (700, 800, 902, 950)] == [103, 53, 2, 0]


def test_cache_that_the_kernel_would_give_back_counts_as_free(machine: Machine) -> None:
    files = {
        "memory.max": 1000 * MB,
        "memory.current": 950 * MB,
        "memory.stat": f"anon 1\ninactive_file {600 * MB}\n",
    }

    assert limit_of(machine(8 * GB, **files)) == 125


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ({"nofile": 1024}, 1024 // 3 // 3),
        ({"pids.max": "400"}, 100),
        ({"pids.max": "max"}, 1024),
    ],
)
def test_descriptors_and_processes_limit_idle_processes(
    machine: Machine, what: dict[str, int], expected: int
) -> None:
    assert limit_of(machine(8 * GB - 6 * MB, **what)) == expected


def test_limit_of_the_jobs_own_processes_counts_idle_ones_too(machine: Machine) -> None:
    assert limit_of(machine(8 * GB), processes=100) == 25


def test_spares_count_as_idle_memory(machine: Machine) -> None:
    host = machine(8 * GB - 6 * MB)

    assert limit_of(host, spares=16) == 1024 - 16


def test_what_fits_changes_with_a_twentieth_of_it_only_and_at_once_when_memory_is_short(
    machine: Machine,
) -> None:
    limit = IdleLimit(
        None, slots=8, spares=0, job_processes=0, host=machine(8 * GB - 6 * MB, nofile=10**6)
    )
    fits = []

    for available in (8 * GB, 8 * GB + 300 * MB, 7 * GB + 700 * MB, 9 * GB, 9 * GB - 300 * MB):
        machine(available - 6 * MB, nofile=10**6)
        limit.look(PIDS)
        fits.append(limit.most)
    machine(9 * GB, nofile=10**6, **{"memory.max": 9 * GB, "memory.current": 8_200 * MB})
    limit.look(range(11, 11 + 1_000))
    short = limit.most

    assert fits == [1024, 1024, 1024, 1152, 1152]
    assert short < 1_152


def test_a_place_per_slot_stays_free_of_many_and_none_of_few_or_of_a_chosen_number(
    machine: Machine,
) -> None:
    def kept(available: int, fixed: int | None = None) -> tuple[int, int]:
        host = machine(available - 6 * MB, nofile=10**6)
        limit = IdleLimit(fixed, slots=8, spares=0, job_processes=0, host=host)
        limit.look(PIDS)
        return limit.most, limit.kept

    places = [kept(8 * GB), kept(256 * MB), kept(80 * MB), kept(8 * GB, fixed=300)]

    assert places == [(1024, 1016), (32, 30), (10, 10), (300, 300)]


def test_number_that_was_chosen_is_kept_whatever_the_memory(machine: Machine) -> None:
    assert limit_of(machine(1 * MB), fixed=300) == 300


def test_machine_that_tells_nothing_keeps_none(tmp_path: Path) -> None:
    assert limit_of(Host(tmp_path)) == 0
