"""Whether an executor lives and takes work can be read in its state folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from warren.broker.reasons import Why
from warren.executor.lanes.readiness import CONTACT_SECONDS
from warren.executor.state_folder import SIGNS_NAME, Signs, running


@pytest.fixture
def case(tmp_path: Path) -> Iterator[AgentCase]:
    case = AgentCase(tmp_path)
    yield case
    case.broker.unblock()
    case.broker.start()
    case.close()


def said(case: AgentCase) -> Signs:
    [(signs, _)] = running(case.state_dir)
    return signs


def test_its_signs_say_that_it_was_welcomed_and_what_keeps_it_from_work(case: AgentCase) -> None:
    beats: list[int] = []
    executor = case.make()
    executor.start(lambda: beats.append(1))

    eventually(lambda: said(case).was_welcomed and not said(case).obstacle)
    assert beats
    assert said(case).boot_id == executor.identity.boot_id

    case.broker.block()
    case.skip_seconds(CONTACT_SECONDS + 1)
    eventually(lambda: said(case).obstacle == str(Why.OUT_OF_CONTACT()))


def test_it_leaves_no_sign_when_it_has_ended(case: AgentCase) -> None:
    executor = case.boot()
    eventually(lambda: said(case).was_welcomed)

    executor.stop()

    assert executor.join(60)
    assert not (case.state_dir / "exec-1" / SIGNS_NAME).exists()
