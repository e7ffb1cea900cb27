"""Runs a peer's workers and sender, and measures their throughput."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import cpu
from benchmarks.peers.private_redis import PrivateRedis
from benchmarks.rates import Rate
from benchmarks.servers import Servers
from benchmarks.stack import SLOTS
from tests.support import contained_command
from tests.support.eventually import eventually
from tests.support.processes import basic_environment, descendants
from tests.support.service import Service

PROGRAMS = Path(__file__).with_name("programs")
#: The peers' own environment, made by `make bench-peers`.
BIN = Path(__file__).parents[2] / "build" / "peers" / "bin"
#: Ends the sender and everything that it started.
_CONTAINED = Path(contained_command.__file__)
#: The same as in `programs/sending.py`.
WARM_UP_RUNS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A program to compare with.

    `worker` is the command that starts its workers in the peers' environment; None if the sender
    runs the jobs itself.
    """

    package: str
    title: str
    sender: str
    worker: tuple[str, ...] = ()
    is_fresh: bool = False


PEERS = (
    Peer(
        package="celery",
        title="Celery, RabbitMQ, results in MySQL",
        sender="celery_app.py",
        worker=("celery", "-A", "celery_app", "worker", "-c", str(SLOTS), "-l", "warning"),
    ),
    Peer(
        package="dramatiq",
        title="Dramatiq, RabbitMQ, results in Redis",
        sender="dramatiq_app.py",
        worker=("dramatiq", "dramatiq_app", "-p", str(SLOTS), "-t", "1"),
    ),
    Peer(
        package="apscheduler",
        title="APScheduler, jobs in MySQL, no results",
        sender="apscheduler_app.py",
    ),
    Peer(
        package="rq",
        title="RQ, results in Redis, a process each",
        sender="rq_app.py",
        worker=("rq", "worker-pool", "-q", "-n", str(SLOTS), "bench"),
        is_fresh=True,
    ),
)


def version(package: str) -> str:
    """Return the installed version in the peers' environment."""
    ask = f"from importlib.metadata import version; print(version({package!r}))"
    found = subprocess.run([BIN / "python", "-c", ask], capture_output=True, text=True, check=True)
    return found.stdout.strip()


class Arena:
    """The services for peers, and a folder for their output."""

    def __init__(self, own: Servers, redis: PrivateRedis) -> None:
        self._own = own
        self._redis = redis
        self._count = 0

    def measure(self, peer: Peer, runs: int) -> Rate:
        """Return runs per second, from the first one sent until all ends are stored."""
        self._count += 1
        starts = self._own.folder / f"{peer.package}-{self._count}-starts"
        env = self._environment(starts)
        with self._workers(peer, env) as workers, _sender(peer, env, runs) as sender:
            assert _line(sender, peer) == "ready"
            sending = descendants(sender.pid)[0].pid
            meter = cpu.Meter(self._clocks(sending, workers))
            _go(sender)
            seconds = float(_line(sender, peer))
            spent = meter.spent(runs)
            _go(sender)
        lines = starts.read_bytes().split()
        assert len(lines) == WARM_UP_RUNS + runs, f"{peer.title}: {len(lines)} starts"
        return Rate(runs / seconds, spent)

    def _clocks(self, sender: int, workers: int | None) -> dict[str, cpu.Clock]:
        """Return all processor clocks; without workers, those of the sender's children."""
        return {
            "sender": lambda: cpu.own(sender),
            **self._own.clocks(),
            "Redis": lambda: cpu.own(self._redis.pid),
            "workers": lambda: (
                cpu.below(sender) if workers is None else cpu.own(workers) + cpu.below(workers)
            ),
        }

    def _environment(self, starts: Path) -> dict[str, str]:
        return {
            "PATH": f"{BIN}:/usr/bin:/bin",
            "PYTHONPATH": str(PROGRAMS),
            "BENCH_BROKER_URL": self._own.rabbitmq.vhost_url(self._own.rabbitmq.add_vhost()),
            "BENCH_DATABASE_URL": self._own.database.create_database(),
            "BENCH_REDIS_URL": self._redis.emptied(),
            "BENCH_STARTS": str(starts),
            "BENCH_SLOTS": str(SLOTS),
        }

    @contextmanager
    def _workers(self, peer: Peer, env: dict[str, str]) -> Iterator[int | None]:
        if not peer.worker:
            yield None
            return
        program, *arguments = peer.worker
        output = self._own.folder / f"{peer.package}.log"
        if peer.package == "rq":
            arguments += ["--url", env["BENCH_REDIS_URL"]]
        service = Service([str(BIN / program), *arguments], env=env, output=output)
        try:
            yield eventually(service.processes)[0].pid
        finally:
            service.end()


@contextmanager
def _sender(peer: Peer, env: Mapping[str, str], runs: int) -> "Iterator[subprocess.Popen[str]]":
    program = [str(BIN / "python"), str(PROGRAMS / peer.sender), str(runs)]
    with subprocess.Popen(
        [sys.executable, "-S", str(_CONTAINED), str(os.getpid()), *program],
        env=basic_environment() | dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def _go(sender: "subprocess.Popen[str]") -> None:
    assert sender.stdin is not None
    sender.stdin.write("go\n")
    sender.stdin.flush()


def _line(sender: "subprocess.Popen[str]", peer: Peer) -> str:
    assert sender.stdout is not None
    line = sender.stdout.readline().strip()
    assert line, f"{peer.title}: the sender ended"
    return line
