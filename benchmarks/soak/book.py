"""The book of starts: a line for each start, appended by the jobs themselves, outside of Warren."""

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Start:
    """One start, as its job wrote it: `tick` is the due time, in epoch milliseconds as `at`."""

    run: int
    job: int
    tick: int
    shard: int
    attempt: int
    at: int


def write(path: Path, start: Start) -> None:
    """Append a start in a single write, which the kernel does not mix with others."""
    facts = (start.run, start.job, start.tick, start.shard, start.attempt, start.at)
    out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(out, (" ".join(map(str, facts)) + "\n").encode())
    finally:
        os.close(out)


def read(path: Path) -> list[Start]:
    """Return every start; a line that is none raises ValueError."""
    if not path.exists():
        return []
    return [Start(*map(int, line.split())) for line in path.read_text().splitlines()]


def now_ms() -> int:
    """Return the host's clock."""
    return time.time_ns() // 1_000_000


def script(path: Path) -> str:
    """Return the lines of a shell script that append its start, in a single write too."""
    return (
        'tick=$(date -d "$WARREN_SCHEDULED_AT" +%s%3N)\n'
        'printf \'%s %s %s %s %s %s\\n\' "$WARREN_RUN_ID" "$WARREN_JOB_ID" "$tick" '
        f'"$WARREN_SHARD_INDEX" "$WARREN_ATTEMPT" "$(date +%s%3N)" >> \'{path}\'\n'
    )
