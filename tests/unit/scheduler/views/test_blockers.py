"""Why an executor gets no runs, or a job's are not sent: each case that the database can tell."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from warren.broker.messages import Catalogue, HandlerFacts
from warren.scheduler.flows.graph import parse
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.membership.catalogues import Need
from warren.scheduler.views.blockers import MAX_JOBS, Blockers, blocker_json
from warren.scheduler.views.process_view import ExecutorView
from warren.sql.instants import iso
from warren.sql.registry.pauses import ShownPause
from warren.sql.registry.presence import ProcessState


def executor(address: str = "a", **facts: Any) -> ExecutorView:
    plain: dict[str, Any] = {
        "app": "reports",
        "address": address,
        "state": ProcessState.ALIVE,
        "listed": None,
        "boot_id": "b00t",
        "boot_at": 1_000,
        "beat_at": 2_000,
        "draining": False,
        "ailments": (),
        "slots": 8,
        "running": 0,
        "waiting": 0,
        "cpu_percent": 0,
        "memory_percent": 0,
        "handlers": ("report",),
        "languages": (),
        "code_version": "",
        "catalogue": None,
    }
    return ExecutorView(**plain | facts)


def pause(app: str | None = None, **facts: Any) -> ShownPause:
    plain = {"since_at": 1_000, "until_at": None, "paused_by": "olga", "reason": ""}
    return ShownPause(app_id=7 if app else 0, app=app, **plain | facts)


SOUND = Blockers(
    has_scheduler=True,
    pauses=(),
    executors=(executor("a"), executor("b")),
    started_apps={"reports"},
    format_time=iso,
)


def said(
    blockers: Blockers, address: str = "a", started: Mapping[int, str] | None = None
) -> list[str]:
    [one] = [one for one in blockers.executors if one.address == address]
    return list(map(str, blockers.of_executor(one, started)))


def with_executors(*found: ExecutorView) -> Blockers:
    return replace(SOUND, executors=found)


def test_where_all_is_well_there_is_no_reason() -> None:
    assert said(SOUND) == []
    assert SOUND.of_job("reports") == []


@pytest.mark.parametrize(
    ("blockers", "words"),
    [
        (replace(SOUND, has_scheduler=False), "no scheduler is online"),
        (replace(SOUND, is_stalled=True), "the broker confirms nothing that schedulers send"),
        (
            with_executors(executor(ailments=("queue",))),
            "its queue at the broker cannot be reached",
        ),
        (replace(SOUND, pauses=[pause()]), "dispatch is paused until somebody resumes it"),
        (
            replace(SOUND, pauses=[pause("reports", until_at=1_800_000_000_000, reason="disk")]),
            "app reports is paused until 2027-01-15T08:00:00.000+00:00 (disk)",
        ),
        (replace(SOUND, started_apps=()), "no job of app reports is started"),
        (with_executors(executor(state=ProcessState.ABSENT)), "it has never connected"),
        (
            with_executors(executor(state=ProcessState.SILENT)),
            "it is offline, no heartbeat since 1970-01-01T00:00:02.000+00:00",
        ),
        (
            with_executors(executor(state=ProcessState.DRAINING)),
            "it is draining and takes no new runs",
        ),
        (
            with_executors(executor(listed=False), executor("b", listed=True)),
            "the address list of app reports does not name it",
        ),
        (
            with_executors(executor(ailments=("disk",)), executor("b")),
            "it is impaired, so runs go to other executors: the disk is nearly full",
        ),
        (with_executors(executor(ailments=("journal",))), "its journal cannot be written"),
        (with_executors(executor(running=8)), "all 8 slots are taken, new runs wait"),
    ],
)
def test_an_executor_gets_nothing_for_a_reason(blockers: Blockers, words: str) -> None:
    assert said(blockers) == [words]


def test_a_pause_of_another_app_is_no_reason() -> None:
    assert said(replace(SOUND, pauses=[pause("mails")])) == []


def test_a_full_disk_alone_keeps_no_run_away() -> None:
    assert said(with_executors(executor(ailments=("disk",)))) == []


@pytest.mark.parametrize(("route", "chosen"), [("FIRST", "a"), ("LAST", "b"), ("FAILOVER", "a")])
def test_a_route_that_always_chooses_one_leaves_the_others_without_runs(
    route: str, chosen: str
) -> None:
    started = {1: route, 2: route}
    other = {"a": "b", "b": "a"}[chosen]

    assert said(SOUND, chosen, started) == []
    assert said(SOUND, other, started) == [
        f"the routes of all started jobs choose other executors: {chosen}"
    ]


@pytest.mark.parametrize(
    "started",
    [
        {},
        {1: "FIRST", 2: "RANDOM"},
        {1: "FIRST", 2: "a-route-of-ours"},
        dict.fromkeys(range(MAX_JOBS + 1), "FIRST"),
    ],
    ids=["none", "one-is-random", "one-is-added", "too-many-to-know"],
)
def test_a_route_is_no_reason_unless_it_is_certain(started: dict[int, str]) -> None:
    assert said(SOUND, "b", started) == []


@pytest.mark.parametrize(
    ("blockers", "words"),
    [
        (with_executors(), "no executor of app reports is online"),
        (
            with_executors(executor(state=ProcessState.SILENT, listed=True)),
            "none of the listed executors is online: a",
        ),
        (
            with_executors(executor(state=ProcessState.DRAINING)),
            "every executor of app reports that is online is draining",
        ),
        (
            with_executors(executor(ailments=("contact", "disk"))),
            "a is impaired: it is out of contact; the disk is nearly full",
        ),
        (
            with_executors(executor(running=8), executor("b", running=9)),
            "all 16 slots of app reports are taken, new runs wait",
        ),
        (
            replace(SOUND, pauses=[pause(), pause("reports"), pause("mails")]),
            (
                "dispatch is paused until somebody resumes it; "
                "app reports is paused until somebody resumes it"
            ),
        ),
    ],
)
def test_runs_of_a_job_are_not_sent_for_a_reason(blockers: Blockers, words: str) -> None:
    assert "; ".join(map(str, blockers.of_job("reports"))) == words


def having(address: str, *handlers: str, languages: tuple[str, ...] = (), **more: Any) -> Any:
    told = Catalogue(handlers=tuple(HandlerFacts(name=one) for one in handlers), **more)
    return executor(address, handlers=handlers, languages=languages, catalogue=told)


@pytest.mark.parametrize(
    ("executors", "need", "words"),
    [
        ([having("a", "x")], Need("y"), "no online executor of app reports has handler 'y'"),
        ([having("a", "x"), having("b", "y")], Need("y"), ""),
        ([having("a", "x"), executor("old")], Need("y"), ""),
        ([having("a", "x", has_more=True)], Need("y"), ""),
        (
            [having("a", languages=("python",))],
            Need("shell", is_script=True),
            "no online executor of app reports runs shell scripts",
        ),
        ([having("a", languages=("shell",))], Need("shell", is_script=True), ""),
        (
            [having("a", "x"), having("b", "y")._replace(running=8)],
            Need("y"),
            "all 8 slots of app reports are taken, new runs wait",
        ),
    ],
)
def test_a_job_is_told_that_nobody_online_has_what_it_needs(
    executors: list[ExecutorView], need: Need, words: str
) -> None:
    assert "; ".join(map(str, with_executors(*executors).of_job("reports", need))) == words


def test_programs_get_the_code_of_a_pause_that_has_a_reason() -> None:
    blockers = replace(SOUND, pauses=[pause(reason="disk")])

    assert blocker_json(blockers.of_job("reports")) == [
        {"code": "PAUSED", "message": "dispatch is paused until somebody resumes it (disk)"}
    ]


def test_a_flow_needs_no_executor_but_waits_while_its_app_is_paused() -> None:
    nightly = JobSpec(name="nightly", app="reports", flow=parse({"load": {"job": "load"}}))
    paused = replace(with_executors(), pauses=[pause(reason="disk")])

    assert with_executors().of_spec(nightly) == []
    assert len(paused.of_spec(nightly)) == 1
