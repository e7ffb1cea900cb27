"""One address, one living executor."""

from tests.support.deployment import Deployment
from warren.sql.run_status import RunStatus


def test_held_address_is_refused_while_its_executor_lives_and_given_away_after_its_death(
    fleet: Deployment,
) -> None:
    fleet.app = "contested-app"
    first = fleet.executor("contested")
    fleet.await_executors(first)

    second = fleet.executor("contested", state_dir=fleet.folder / "other-state")
    assert second.wait() == 1
    assert second.text().splitlines()[-1] == (
        "error: address contested is in use by another running executor"
    )
    fleet.job("proof")
    fleet.await_status(fleet.trigger("proof"), RunStatus.SUCCEEDED)

    first.kill()
    third = fleet.executor("contested", state_dir=fleet.folder / "other-state")
    fleet.await_executors(third)
    fleet.await_success(fleet.trigger("proof"))


def test_second_executor_on_one_state_folder_is_refused_in_one_line(fleet: Deployment) -> None:
    second = fleet.executor("steady")

    assert second.wait() == 1
    last = second.text().splitlines()[-1]
    assert last.startswith("error: ")
    assert "steady" in last
