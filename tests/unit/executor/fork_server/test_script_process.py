import pytest

from warren.broker.messages import Trigger
from warren.executor.fork_server.job_main import script_environment


def trigger() -> Trigger:
    return Trigger(
        run_id=5, job_id=7, boot_id="b", kind="CRON", handler="", scheduled_at_ms=1_700_000_000_500
    )


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        ({}, {"LANG": "C.UTF-8"}),
        ({"LANG": ""}, {"LANG": "C.UTF-8"}),
        ({"LANG": "C"}, {"LANG": "C.UTF-8"}),
        ({"LANG": "de_DE.UTF-8"}, {"LANG": "de_DE.UTF-8"}),
        ({"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, {"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}),
        ({"LANG": "de_DE", "LC_ALL": "POSIX"}, {"LANG": "de_DE", "LC_ALL": "C.UTF-8"}),
    ],
)
def test_locale_that_means_ascii_becomes_utf8(
    inherited: dict[str, str], expected: dict[str, str]
) -> None:
    made = script_environment(trigger(), inherited)

    assert {name: made[name] for name in made if name in ("LANG", "LC_ALL", "LC_CTYPE")} == expected


def test_what_is_inherited_stays_but_for_what_names_the_run() -> None:
    made = script_environment(
        trigger(), {"PATH": "/bin", "PYTHONUTF8": "0", "WARREN_RUN_ID": "another"}
    )

    assert (made["PATH"], made["PYTHONUTF8"], made["WARREN_RUN_ID"]) == ("/bin", "0", "5")


def test_instant_is_told_in_utc_with_its_offset() -> None:
    made = script_environment(trigger(), {})

    assert made["WARREN_SCHEDULED_AT"] == "2023-11-14T22:13:20.500+00:00"
