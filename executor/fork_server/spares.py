"""Job processes forked in advance, which belong to nobody until they take their first order.

    forked ──start-up done──> spare ──takes an order──> the process of a job
                                └─ dies: replaced, a little later each time

They are forked when nothing has been asked for a moment, so that runs which come then wait for no
fork. A spare that died before it took its order has not begun anything: its run is started again.
"""

import array
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

from warren.executor.fork_server import frames
from warren.executor.fork_server.forking import Child

#: Seconds without a request after which spares are forked, and how many in one go.
QUIET_SECONDS = 0.01
_FORK_LIMIT = 4
#: Seconds until another spare follows one that died or could not be forked: at first, at most.
BACKOFF_SECONDS = (0.1, 30.0)

#: From this delay in seconds on it is reported: several have failed one after the other.
_TOLD_SECONDS = 0.8

#: What a spare answers once it has its order, before it acts on it.
_TAKEN = b"taken"


class Spare(NamedTuple):
    """A spare process and the zygote's end of the link by which it gets its order."""

    process: Child
    link: socket.socket

    def has_taken_order(self) -> bool:
        """Whether it had taken the order that it was sent before it ended; closes the link."""
        try:
            return self.link.recv(len(_TAKEN), socket.MSG_DONTWAIT) == _TAKEN
        except OSError:
            return False
        finally:
            self.link.close()


class Spares:
    """The spares of one zygote.

    `start(link)` forks one that waits at its end of the link, `reap(process)` releases one that
    has ended and returns its exit code. `on_failing(why, again_in)` is called when they fail one
    after the other.
    """

    def __init__(
        self,
        start: Callable[[socket.socket], Child],
        *,
        reap: Callable[[Child], int],
        on_failing: Callable[[str, float], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._reap = reap
        self._on_failing = on_failing
        self._clock = clock
        self._wanted = 0
        self._all: dict[int, Spare] = {}
        self._due_at = 0.0
        self._backoff = BACKOFF_SECONDS[0]

    def keep(self, count: int) -> None:
        """Keep this many from now on; end the surplus."""
        self._wanted = count
        for spare in list(self._all.values())[count:]:
            spare.link.shutdown(socket.SHUT_RDWR)

    def due_in(self) -> float | None:
        """Return in how many seconds `fork_some` is due; None if none is missing."""
        if len(self._all) >= self._wanted:
            return None
        return max(0.0, self._due_at - self._clock())

    def put_off(self) -> None:
        """Note that a request came: spares can wait."""
        self._due_at = max(self._due_at, self._clock() + QUIET_SECONDS)

    def fork_some(self) -> None:
        """Fork some of those that are missing, if it is time."""
        if self._clock() < self._due_at:
            return
        try:
            for _ in range(min(self._wanted - len(self._all), _FORK_LIMIT)):
                self._fork()
        except OSError as error:
            self._back_off(str(error.strerror))

    def give(self, order: bytes, files: list[int]) -> Spare | None:
        """Hand an order with its files to a spare; return the spare, or None if there is none.

        It is no longer a spare, but still watched.
        """
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))
        for pidfd, spare in list(self._all.items()):
            try:
                spare.link.sendmsg((order,), (rights,), socket.MSG_DONTWAIT)
            except OSError:
                continue  # it is dead, which will show
            del self._all[pidfd]
            self._backoff = BACKOFF_SECONDS[0]
            return spare
        return None

    def take_exit(self, pidfd: int) -> None:
        """Reap a spare that has ended, and replace it later."""
        spare = self._all.pop(pidfd)
        spare.link.close()
        code = self._reap(spare.process)
        if len(self._all) < self._wanted:
            self._back_off(f"ended with exit code {code}")

    def kill(self) -> None:
        """Kill and reap all of them."""
        self._wanted = 0
        for spare in self._all.values():
            spare.process.kill()
        for pidfd in list(self._all):
            self.take_exit(pidfd)

    def _fork(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            process = self._start(theirs)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._all[process.pidfd] = Spare(process, ours)

    def _back_off(self, why: str) -> None:
        self._due_at = self._clock() + self._backoff
        if self._backoff >= _TOLD_SECONDS:
            self._on_failing(why, self._backoff)
        self._backoff = min(2 * self._backoff, BACKOFF_SECONDS[1])


def await_order(link: socket.socket) -> tuple[frames.Fork, list[int]] | None:
    """Wait, in a spare, for its order and the files that came with it; None when it is to end."""
    data, ancillary, _, _ = link.recvmsg(
        frames.PACKET_LIMIT, socket.CMSG_SPACE(8), socket.MSG_CMSG_CLOEXEC
    )
    if not data:
        return None
    # That it has been read proves nothing: a process that is being killed still reads.
    link.send(_TAKEN)
    link.close()
    order = frames.decode_to_zygote(data)
    assert isinstance(order, frames.Fork), "a zygote passes on nothing else"
    return order, descriptors(ancillary)


def descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors that came with a packet, as many as there was room for."""
    numbers = array.array("i")
    for _level, _kind, data in ancillary:
        numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return list(numbers)
