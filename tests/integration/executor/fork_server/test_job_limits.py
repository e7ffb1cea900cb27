"""What job processes may use is said in a text, and a wrong one is told in a line."""

import subprocess
import sys

import pytest

from warren.executor.fork_server.confinement import JobLimits


def test_amounts_may_have_units_and_what_is_left_out_is_unlimited() -> None:
    limits = JobLimits.parse("memory=2G, cpu=600,file_size=512K")

    assert limits == JobLimits(memory=2 * 2**30, cpu=600, file_size=512 * 1024)
    assert JobLimits.parse("") == JobLimits()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "memory",
            "cannot read 'memory'; the limits are memory, cpu, file_size, open_files, processes",
        ),
        ("ram=1G", "cannot read 'ram=1G'"),
        ("memory=-1", "cannot read 'memory=-1'"),
        ("memory=1T", "cannot read 'memory=1T'"),
        ("memory=1.5G", "cannot read 'memory=1.5G'"),
        ("memory=1M", "memory is at least 67108864"),
        ("cpu=0", "cpu is at least 1"),
        ("open_files=3", "open_files is at least 32"),
        ("cpu=1, cpu=2", "cpu is set twice"),
    ],
)
def test_what_is_no_limit_is_told(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=" ") as refused:
        JobLimits.parse(text)

    assert words in str(refused.value)


def test_a_limit_that_holds_already_is_not_raised() -> None:
    code = (
        "import resource\n"
        "from warren.executor.fork_server.confinement import JobLimits\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "JobLimits(open_files=1000).apply()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "(64, 64)\n"
