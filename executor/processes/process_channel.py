"""The executor's end of the channel to a job process: orders go out, answers come in."""

import asyncio
import socket
from collections.abc import Callable

from warren.broker.reasons.codes import Why
from warren.broker.reasons.reason import Reason
from warren.executor.fork_server import frames

#: Bytes taken from the channel at a time; a larger buffer would be mapped anew for every read.
_READ_BYTES = 16_384
#: More reads than the answers of a batch take.
_MOST_READS = 1_000
#: How much of an invalid answer is shown, in bytes.
_SHOWN_BYTES = 60


class ProcessChannel:
    """A channel whose `other_end` goes to the job process.

    `on_answer` is called with each answer, `on_misuse` when something else arrives, after which
    nothing is read any more. `in_batch`: several answers may come, one after the other.
    `left_input_unread`: the process closed its end before it had read everything.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_answer: Callable[[frames.FromJobProcess], None],
        on_misuse: Callable[[Reason], None],
    ) -> None:
        self._loop = loop
        self._on_answer = on_answer
        self._on_misuse = on_misuse
        self._unread = b""
        self._unsent = b""
        self._is_misused = False
        self.in_batch = False
        self.left_input_unread = False
        self._socket, self.other_end = socket.socketpair()
        self._socket.setblocking(False)
        loop.add_reader(self._socket, self._on_readable)

    def send(self, data: bytes) -> None:
        """Send lines, the rest of them once there is room."""
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.left_input_unread = True  # it is dead: its exit will be reported
            return
        if sent < len(data):
            self._unsent = data[sent:]
            self._loop.add_writer(self._socket, self._send_more)

    def read(self) -> None:
        """Take the answers that have come."""
        for _ in range(_MOST_READS):
            if self._is_misused or not self._on_readable():
                return

    def close(self) -> None:
        """Take what is left in the channel of a process that is gone, and close it."""
        while self._on_readable():
            pass
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()

    def _send_more(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent = b""
        if not self._unsent:
            self._loop.remove_writer(self._socket)

    def _on_readable(self) -> bool:
        """Read what is there; return False when there is nothing."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            # A reset: the process closed the channel before it had read everything.
            self.left_input_unread = True
            data = b""
        if not data:
            # No proof of an exit: a job may close any descriptor. The zygote reports exits.
            self._loop.remove_reader(self._socket)
            return False
        if not self._is_misused:
            self._unread = self._unread + data if self._unread else data
            while self._unread and self._take_answer():
                pass
        return True

    def _take_answer(self) -> bool:
        """Take the first answer that has come whole; return False if there is none."""
        data = self._unread
        try:
            answer, self._unread = frames.take_answer(data, in_batch=self.in_batch)
        except frames.InvalidAnswer:
            self._is_misused = True
            self._unread = b""
            self._loop.remove_reader(self._socket)
            self._on_misuse(Why.CHANNEL_MISUSED(data=repr(data[:_SHOWN_BYTES])))
            return False
        if answer is None:
            return False
        self._on_answer(answer)
        return True
