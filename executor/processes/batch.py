"""Runs that a job process was given at once, and which of them have begun, as far as is known."""

from collections import deque

from warren.executor import begin_notes


class Batch:
    """Runs given to one process at once, the head first; no other begins after `seconds`.

    `note` is the file of the process's begin note, and `before` what that held until then.
    `followers` are those that the process has not reached yet, as far as is known.
    """

    def __init__(
        self, number: int, note: int, run_ids: tuple[int, ...], seconds: float, before: int
    ) -> None:
        self.number = number
        self.seconds = seconds
        self.head = run_ids[0]
        self.followers = deque(run_ids[1:])
        self._note = note
        self._run_ids = run_ids
        self._before = before

    def reach_next(self) -> int:
        """Note that the process has come to the next run; return that."""
        return self.followers.popleft()

    def has_begun(self, run_id: int, noted: int) -> bool:
        """Whether a run of this batch may have begun, given the note."""
        if noted not in self._run_ids:
            return noted != self._before
        return self._run_ids.index(run_id) <= self._run_ids.index(noted)

    def begun(self) -> int:
        """Return the run that the process has begun last; if that cannot be read, the last one."""
        try:
            return begin_notes.begun(self._note)
        except OSError:
            return self._run_ids[-1]

    def withdraw(self) -> int:
        """Let no further follower begin; return as `begun`."""
        try:
            return begin_notes.withdraw(self._note, self.number)
        except OSError:
            return self._run_ids[-1]

    def take_back(self, current: int | None, noted: int) -> list[int]:
        """Forget the runs that have not begun, `noted` being the last that has; return them.

        The last one among them is the `current` run if it was only believed to have been reached.
        """
        back = []
        while self.followers and not self.has_begun(self.followers[-1], noted):
            back.append(self.followers.pop())
        if current is None or current == self.head or self.has_begun(current, noted):
            return back
        return [*back, current]
