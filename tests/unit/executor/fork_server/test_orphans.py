"""How often the zygote looks for what dead runs left, beside few and many idle processes."""

import pytest

from warren.executor.fork_server.zygote import Orphans


class Zygote:
    """Has so many idle processes, and looks for orphans when one of a thousand a second ends."""

    def __init__(self, idle: int) -> None:
        self.looks = 0
        self._idle = [2**22 + n for n in range(idle)]  # greater than any process id
        self._now = 1_000.0
        self._orphans = Orphans(self._children, lambda: self._now)
        self.looks = 0

    def _children(self) -> list[int]:
        self.looks += 1
        return self._idle

    def end_processes(self, seconds: float) -> None:
        for _ in range(round(seconds * 1_000)):
            self._now += 0.001
            if not self._orphans.due_in():
                assert self._orphans.find() == []


@pytest.mark.parametrize(("idle", "most"), [(30, 1_000), (2_000, 100), (8_000, 25)])
def test_exits_beside_many_idle_processes_share_a_look(idle: int, most: int) -> None:
    zygote = Zygote(idle)

    zygote.end_processes(1)

    assert 0.8 * most <= zygote.looks <= most


def test_a_lone_exit_waits_for_no_other_however_many_idle_there_are() -> None:
    zygote = Zygote(8_000)

    zygote.end_processes(0.001)

    assert zygote.looks == 1
