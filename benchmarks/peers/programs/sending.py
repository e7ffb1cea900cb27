"""The common sender: warms up, waits for a line, sends its runs and waits for all ends."""

import sys
import time
from collections.abc import Callable

WARM_UP_RUNS = 20
POLL_SECONDS = 0.1
#: After this long something is wrong.
PATIENCE_SECONDS = 240.0


def run(send: Callable[[int], object], count_ended: Callable[[], int]) -> None:
    """Send as many runs as the command line says; print the seconds until all have ended.

    Args:
        send: sends one run.
        count_ended: returns how many have ended and been stored so far.

    """
    runs, before = int(sys.argv[1]), count_ended()
    for number in range(WARM_UP_RUNS):
        send(number)
    _wait(count_ended, before + WARM_UP_RUNS)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    for number in range(runs):
        send(WARM_UP_RUNS + number)
    _wait(count_ended, before + WARM_UP_RUNS + runs)
    print(time.monotonic() - began, flush=True)
    sys.stdin.readline()  # keep running until its processor time has been read


def _wait(count_ended: Callable[[], int], count: int) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while (ended := count_ended()) < count:
        if time.monotonic() > give_up_at:
            sys.exit(f"expected {count} ends, got: {ended}")
        time.sleep(POLL_SECONDS)
