"""The limits of a container count, not those of its host."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from warren.executor.container import memory_percent, own_cgroup, processors


@pytest.mark.parametrize(
    ("limit", "count"),
    [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 8), ("9900000 100000", 8), ("x", 8)],
)
def test_processors_are_those_of_the_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, count: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    (tmp_path / "cpu.max").write_text(f"{limit}\n")

    assert processors(tmp_path) == count


def test_processors_are_those_that_it_may_run_on(tmp_path: Path) -> None:
    assert processors(tmp_path) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("limit", "percent"), [("1000", 30.0), ("max", None), ("0", None)])
def test_memory_is_that_of_the_limit(tmp_path: Path, limit: str, percent: float | None) -> None:
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text("500\n")
    (tmp_path / "memory.stat").write_text("anon 300\ninactive_file 200\n")

    assert memory_percent(tmp_path) == percent


def test_memory_of_no_cgroup_is_unknown(tmp_path: Path) -> None:
    assert memory_percent(tmp_path) is None


@pytest.mark.parametrize(
    ("told", "path"), [("0::/\n", ""), ("1:cpu:/x\n0::/system.slice/a\n", "system.slice/a")]
)
def test_cgroup_is_that_of_this_process(tmp_path: Path, told: str, path: str) -> None:
    (tmp_path / "cgroup").write_text(told)

    assert own_cgroup(tmp_path / "cgroup", tmp_path) == tmp_path / path
    assert own_cgroup(tmp_path / "none", tmp_path) == tmp_path


FILE_LIMIT = """
import resource, sys
from warren.executor.container import raise_file_limit
soft, hard = (int(word) for word in sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
raise_file_limit()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("before", "after"), [((256, 1_000), "1000 1000"), ((1_000, 1_000), "1000 1000")]
)
def test_an_executor_may_have_as_many_descriptors_as_the_hard_limit_allows(
    before: tuple[int, int], after: str
) -> None:
    command = [sys.executable, "-c", FILE_LIMIT, *map(str, before)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == after
