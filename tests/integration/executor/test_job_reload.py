"""Handlers imported anew: later runs have the new code, running ones finish with theirs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slot_harness import SlotHarness
from warren.broker.messages import Outcome

SOURCE = """
import pathlib, time

@job("say")
def say(context):
    return "VERSION"

@job("wait")
def wait(context):
    pathlib.Path(context.param + ".begun").touch()
    while not pathlib.Path(context.param).exists():
        time.sleep(0.01)
    return "VERSION"
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SlotHarness]:
    harness = SlotHarness(tmp_path, SOURCE.replace("VERSION", "old"), is_reloaded=True).open()
    yield harness
    harness.close()


def save(harness: SlotHarness, source: str) -> None:
    head = harness.file.read_text().partition("\n")[0]
    harness.file.write_text(f"{head}\n{source}")


def reload(harness: SlotHarness) -> str:
    """Reload the handlers; return why that failed, "" if it did not."""
    told: list[str] = []
    harness.slots.reload(told.append)
    harness.turn(lambda: told)
    return told[0]


def test_later_runs_have_the_new_code_and_running_ones_finish(harness: SlotHarness) -> None:
    assert harness.run("say").message == "old"
    release = harness.folder / "release"
    running = harness.start("wait", str(release))
    harness.turn((harness.folder / "release.begun").exists)
    save(harness, SOURCE.replace("VERSION", "new"))

    assert reload(harness) == ""

    assert harness.run("say").message == "new"
    release.touch()
    assert harness.wait(running).message == "old"
    release.unlink()
    again = harness.start("wait", str(release))
    release.touch()
    assert harness.wait(again).message == "new"


def test_a_running_run_of_old_code_can_still_be_stopped(harness: SlotHarness) -> None:
    running = harness.start("wait", str(harness.folder / "never"))
    harness.turn((harness.folder / "never.begun").exists)
    assert reload(harness) == ""

    assert harness.slots.stop(running, "test")

    assert harness.wait(running).outcome is Outcome.KILLED


def test_code_that_cannot_be_imported_is_one_line_and_the_old_goes_on(harness: SlotHarness) -> None:
    save(harness, "def broken(:\n")

    why = reload(harness)

    assert "SyntaxError" in why
    assert "\n" not in why
    assert harness.run("say").message == "old"
    save(harness, SOURCE.replace("VERSION", "new"))
    assert reload(harness) == ""
    assert harness.run("say").message == "new"


def test_handlers_that_are_new_are_known_and_told(harness: SlotHarness) -> None:
    save(harness, SOURCE + '\n@job("more")\ndef more(context):\n    return "more"\n')

    assert reload(harness) == ""

    assert "more" in harness.slots.handlers
    assert harness.slots.catalogue is not None
    assert b'"more"' in harness.slots.catalogue.contents
    assert harness.run("more").message == "more"


def test_the_last_of_two_saves_counts(harness: SlotHarness) -> None:
    told: list[str] = []
    for version in ("newer", "newest"):
        save(harness, SOURCE.replace("VERSION", version))
        harness.slots.reload(told.append)
    harness.turn(lambda: told)

    assert told == [""]
    assert harness.run("say").message == "newest"
