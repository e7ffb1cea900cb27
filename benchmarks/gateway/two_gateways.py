"""Kills two gateways in turn that share busy executors, and says which runs were LOST.

`python -m benchmarks.gateway.two_gateways --minutes 4`. What an executor was never called for must
not end LOST, and nothing may be called twice.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchmarks.servers import servers
from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.remote_executors import TOKEN, GatewayCase
from warren.sql.models import Run
from warren.sql.run_status import RunStatus

ROOT = Path(__file__).parents[2]
LISTED_SECONDS = 60.0


class TwoGateways:
    """Two gateways that know each other, and `count` executors that know both.

    A run takes `run_seconds` there. `deployment` needs a scheduler, and ends the gateways.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        count: int = 2,
        run_seconds: float = 0.5,
        register_seconds: float = 10.0,
    ) -> None:
        self._case = GatewayCase(deployment, Path(sys.executable).parent)
        self._case.ports = [free_port(), free_port()]
        self._count = count
        self._run_seconds = run_seconds
        self._register_seconds = register_seconds
        self._starts = deployment.folder / "remote-starts"
        self.gateways: list[Command] = []

    def start(self) -> None:
        """Start everything, and return once the executors are listed."""
        self.gateways = [self._gateway(number) for number in (0, 1)]
        urls = ",".join(f"http://127.0.0.1:{port}/xxl-job-admin" for port in self._case.ports)
        case = self._case
        seconds = (str(self._run_seconds), str(self._register_seconds))
        arguments = (urls, case.app, TOKEN, str(self._count), *seconds)
        remotes = Command(
            *("-m", "benchmarks.gateway.busy_remotes", *arguments),
            folder=case.folder,
            env={"PYTHONPATH": str(ROOT), "BENCH_STARTS": str(self._starts)},
            program=Path(sys.executable),
        )
        case.remotes.append(remotes)
        eventually(
            lambda: list(case.listed().values()).count("alive") == self._count,
            LISTED_SECONDS,
            every=0.2,
        )

    def kill(self, number: int) -> None:
        """Kill one of the gateways by SIGKILL."""
        self.gateways[number].kill()

    def restart(self, number: int) -> None:
        """Start a gateway again that was killed."""
        self.gateways[number] = self._gateway(number)

    def called(self) -> Counter[int]:
        """Return how often executors were called to start each run."""
        text = self._starts.read_text() if self._starts.exists() else ""
        return Counter(map(int, text.split()))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the executors, and let a gateway that stands still go on."""
        for gateway in self.gateways:
            gateway.send(signal.SIGCONT)
        for remote in self._case.remotes:
            remote.close()

    def _gateway(self, number: int) -> Command:
        port, other = self._case.ports[number], self._case.ports[1 - number]
        return self._case.gateway(
            gateway_port=port,
            gateway_peers=f"http://127.0.0.1:{other}",
            state_dir=self._case.folder / f"gateway-{port}",
            log_dir=self._case.folder / f"logs-{port}",
        )


@dataclass(frozen=True, slots=True)
class Losses:
    """What became of the runs, by their rows and by what executors were called for."""

    runs: int
    statuses: Counter[str]
    #: The runs that are LOST, though no executor was called.
    lost_uncalled: Sequence[int]
    lost_called: Sequence[int]
    #: The last attempts of due times that never ran.
    unrun: Sequence[int]
    #: The runs that were called twice, or called though they count as never started.
    doubled: Sequence[int]

    @classmethod
    def of(cls, rows: Sequence[Run], called: Counter[int]) -> "Losses":
        """Compare the rows of runs, in order of their attempts, with the calls of executors."""
        lost = [row.id for row in rows if row.status == RunStatus.LOST]
        unstarted = {row.id for row in rows if row.status == RunStatus.UNDELIVERED}
        last = {(row.job_id, row.scheduled_at, row.origin_id): row for row in rows}
        return cls(
            runs=len(rows),
            statuses=Counter(row.status for row in rows),
            lost_uncalled=[run for run in lost if run not in called],
            lost_called=[run for run in lost if run in called],
            unrun=[row.id for row in last.values() if row.status == RunStatus.UNDELIVERED],
            doubled=[run for run, count in called.items() if count > 1 or run in unstarted],
        )

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.statuses.most_common())
        return (
            f"{self.runs} runs: {counts}; lost_uncalled={len(self.lost_uncalled)} "
            f"lost_called={len(self.lost_called)} unrun={len(self.unrun)} "
            f"doubled={len(self.doubled)}"
        )


def main() -> int:
    """Run it, and print what was lost; return 1 if a run was lost that was never called."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway.two_gateways")
    parser.add_argument("--minutes", type=float, default=4.0, help="default 4")
    parser.add_argument("--jobs", type=int, default=12, help="one run a second each; default 12")
    parser.add_argument("--run-seconds", type=float, default=1.8, help="default 1.8")
    parser.add_argument("--every", type=float, default=60.0, help="s between kills; default 60")
    parser.add_argument("--down", type=float, default=20.0, help="s until restarted; default 20")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="warren-gateways-"))
    with servers(folder) as own, ExitStack() as held:
        vhost = own.rabbitmq.vhost_url(own.rabbitmq.add_vhost())
        url = own.database.create_database()
        deployment = held.enter_context(
            Deployment(folder / "warren", database_url=url, broker_url=vhost, gateway_slots="32")
        )
        deployment.await_schedulers(deployment.scheduler(), deployment.scheduler())
        pair = held.enter_context(TwoGateways(deployment, run_seconds=options.run_seconds))
        for number in range(options.jobs):  # each with a due time a second
            deployment.job(
                f"job-{number}",
                schedule_kind="FIX_RATE",
                schedule_value="1",
                route="ROUND",
                enabled=True,
            )
        _kill_in_turn(pair, options)
        deployment.stop_jobs()
        deployment.await_all_final(300)
        losses = Losses.of(deployment.runs(), pair.called())
        print(losses, f"all logs are in {folder}", sep="\n", flush=True)
    return 1 if losses.lost_uncalled or losses.unrun or losses.doubled else 0


def _kill_in_turn(pair: TwoGateways, options: argparse.Namespace) -> None:
    begun = time.monotonic()
    number = 0
    while time.monotonic() - begun < 60 * options.minutes:
        time.sleep(options.every - options.down)
        pair.kill(number)
        print(f"{time.monotonic() - begun:.0f} s: gateway {number} is killed", flush=True)
        time.sleep(options.down)
        pair.restart(number)
        number = 1 - number
    time.sleep(options.every)


if __name__ == "__main__":
    sys.exit(main())
