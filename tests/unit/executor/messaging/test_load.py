import errno
from collections import namedtuple
from types import SimpleNamespace

import pytest

from warren.executor.messaging import heartbeat as module
from warren.executor.messaging.heartbeat import LoadMeter

Times = namedtuple("Times", "user system idle iowait guest guest_nice")  # noqa: PYI024 - as psutil's


class Host:
    def __init__(self) -> None:
        self.now = 0.0
        self.busy = 100.0
        self.idle = 900.0

    def cpu_times(self) -> Times:
        return Times(self.busy, 0.0, self.idle, 0.0, 0.0, 0.0)

    def pass_seconds(self, seconds: float, share: float) -> None:
        self.now += seconds
        self.busy += seconds * share
        self.idle += seconds * (1 - share)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host()
    monkeypatch.setattr(module.psutil, "cpu_times", host.cpu_times)
    return host


def test_cpu_is_what_was_busy_between_two_samples(host: Host) -> None:
    meter = LoadMeter(lambda: host.now)

    host.pass_seconds(5, 0.75)

    assert meter.read()[0] == 75.0


def test_samples_closer_than_a_second_are_not_taken(host: Host) -> None:
    meter = LoadMeter(lambda: host.now)
    host.pass_seconds(5, 0.25)
    meter.read()

    host.pass_seconds(0.5, 1.0)
    assert meter.read()[0] == 25.0
    host.pass_seconds(0.5, 1.0)

    assert meter.read()[0] == 100.0


def test_clock_that_stands_still_gives_the_last_figure(host: Host) -> None:
    meter = LoadMeter(lambda: host.now)
    host.pass_seconds(5, 0.5)
    meter.read()

    host.now += 5

    assert meter.read()[0] == 50.0


def test_guests_time_counts_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.psutil, "cpu_times", lambda: Times(10, 0, 90, 0, 10, 0))
    meter = LoadMeter(lambda: host.now)
    monkeypatch.setattr(module.psutil, "cpu_times", lambda: Times(20, 0, 180, 0, 20, 0))
    host.now += 2

    assert meter.read()[0] == 10.0


def test_figures_of_this_very_host_are_per_cent() -> None:
    seconds = iter(range(0, 1_000, 10))
    meter = LoadMeter(lambda: float(next(seconds)))

    cpu_percent, memory_percent = meter.read()

    assert 0 <= cpu_percent <= 100
    assert 0 < memory_percent <= 100


@pytest.mark.parametrize(("told", "shown"), [(100.4, 100.0), (-3.0, 0.0), (41.5, 41.5)])
def test_memory_is_a_percentage_whatever_the_host_tells(
    host: Host, monkeypatch: pytest.MonkeyPatch, told: float, shown: float
) -> None:
    monkeypatch.setattr(module.psutil, "virtual_memory", lambda: SimpleNamespace(percent=told))

    assert LoadMeter(lambda: host.now).read()[1] == shown


def test_figures_stay_as_they_were_while_no_descriptor_is_free_to_read_them(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = LoadMeter(lambda: host.now)
    host.pass_seconds(2, 0.5)
    before = meter.read()
    host.pass_seconds(2, 0.9)
    monkeypatch.setattr(module.psutil, "virtual_memory", no_descriptor)

    assert meter.read() == before


def no_descriptor() -> None:
    raise OSError(errno.EMFILE, "Too many open files")
