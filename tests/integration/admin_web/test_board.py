"""The board of an installation on a bad afternoon: what it says, to whom, and what a click does."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import update

from tests.support.acting import NamedUsers
from tests.support.api import Program, make_api, make_token
from tests.support.console import PASSWORD, Clock, Visit, make_app, signed_in
from tests.support.outage import Outage
from tests.support.outage_console import fill_with_board
from tests.support.schemas import SQLiteSchema
from warren.cli import root
from warren.resources.operation import Scope
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.models import Registration
from warren.sql.registry import presence


@dataclass(frozen=True)
class Installation:
    """The installation, with its consoles: of an administrator, and of users of one app each."""

    database: Database
    outage: Outage
    clock: Clock
    admin: Visit
    searcher: Visit
    viewer: Visit


@pytest.fixture(scope="module", params=[7, 11], ids=["seed 7", "seed 11"])
def installation(
    request: pytest.FixtureRequest,
    sqlite_schema: SQLiteSchema,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installation]:
    database = Database(sqlite_schema.copy(tmp_path_factory.mktemp("board") / "warren.db"))
    outage = fill_with_board(database, request.param)
    users = NamedUsers(database, who="the tests")
    users.add("anna", PASSWORD, role=Role.ADMINISTRATOR, app_names=())
    users.add("samu", PASSWORD, role=Role.OPERATOR, app_names=("search",))
    users.add("vicky", PASSWORD, role=Role.VIEWER, app_names=("billing",))
    clock = Clock(outage.now_ms)
    app = make_app(database, clock)
    visits = {name: signed_in(app, name) for name in ("anna", "samu", "vicky")}
    yield Installation(database, outage, clock, visits["anna"], visits["samu"], visits["vicky"])
    database.close()


def words(page: str) -> str:
    """Return the text of a page, in one line."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_one_sentence_says_how_many_jobs_fail_and_what_they_share(
    installation: Installation,
) -> None:
    page = installation.admin.get("/").text

    assert re.search(r"<title>13 jobs fail · Warren</title>", page)
    # After midnight, the day before is said too.
    assert re.search(
        r"<h1>13 of 120 jobs fail; 8 share one error since (\S+ )?\d\d:\d\d\.</h1>", page
    )
    assert "23 that failed in the last 24 hours have recovered." in page
    assert "Due times of 8 jobs were skipped." in page


def test_the_icon_carries_the_number(installation: Installation) -> None:
    page = installation.admin.get("/").text

    [path] = re.findall(r'<link rel="icon" href="([^"]+)"', page)
    icon = installation.admin.get(path)
    assert (icon.mimetype, ">13</text>" in icon.text) == ("image/svg+xml", True)


def test_jobs_with_one_error_are_one_group_that_runs_each_once_more(
    installation: Installation,
) -> None:
    page = installation.admin.get("/").text

    assert page.count('class="group"') == 1
    assert "8 jobs, one error" in page
    group = page[page.index('class="of-group"') : page.index("fx-rates")]
    assert set(re.findall(r'href="/jobs/\d+">([^<]+)</a>', group)) == installation.outage.one_error
    [again] = re.findall(r'data-rerun href="(/runs/bulk/ask[^"]+)">Re-run the newest', page)
    asked = installation.admin.get(again.replace("&amp;", "&")).text
    assert "Start 8 runs again?" in asked


def test_jobs_in_trouble_are_listed_worst_first_and_never_by_name(
    installation: Installation,
) -> None:
    page = installation.admin.get("/").text

    alone = page[page.index('data-row="', page.index('class="of-group"')) :]
    rows = re.findall(
        r'<li class="row" data-row="\d+" tabindex="-1">\s*<span class="sign[^>]*>.*?'
        r'visually-hidden">([^<]+)<.*?data-open[^>]*>([^<]+)</a>',
        alone,
        re.DOTALL,
    )
    assert [row[0] for row in rows[:5]] == ["failing"] * 4 + ["lost with its executor"]
    assert rows[4][1] == "copy-customers"
    skipped = {name for trouble, name in rows if trouble == "skipped"}
    assert skipped == installation.outage.skipped


def test_the_strip_of_a_job_says_its_outcomes_in_words_too(installation: Installation) -> None:
    page = installation.admin.get("/").text

    strips = re.findall(
        r'aria-label="last due times: (\d+) succeeded, (\d+) failed, (\d+) skip', page
    )
    assert len(strips) == 25
    assert ("8", "0", "1") in strips


def test_recovered_jobs_have_their_own_tab(installation: Installation) -> None:
    page = installation.admin.get("/?tab=recovered").text

    assert set(re.findall(r"data-open[^>]*>([^<]+)</a>", page)) == installation.outage.recovered


def test_all_jobs_are_listed_a_page_at_a_time(installation: Installation) -> None:
    first = installation.admin.get("/?tab=all").text
    [more] = re.findall(r'href="([^"]+)">More</a>', first)
    second = installation.admin.get(more.replace("&amp;", "&")).text

    names = re.findall(r"data-open[^>]*>([^<]+)</a>", first + second)
    assert len(names) == len(set(names)) == 120


def test_the_machine_names_what_is_wrong_first(installation: Installation) -> None:
    page = installation.admin.get("/").text

    line = words(page[page.index('class="machine"') : page.index('class="card needs"')])
    assert line.index("gone: warehouse-1") < line.index("Schedulers 2 of 2")
    assert "warehouse full" in line
    assert "Paused mail" in line


def test_the_machine_says_what_schedulers_say_of_broker_and_database(
    installation: Installation,
) -> None:
    of_schedulers = update(Registration).where(Registration.app == presence.SCHEDULER)
    told = of_schedulers.values(load='{"ailments": ["unconfirmed", "server"]}')
    installation.database.write(lambda session: session.execute(told))

    page = installation.admin.get("/").text

    installation.database.write(lambda session: session.execute(of_schedulers.values(load=None)))
    line = words(page[page.index('class="machine"') : page.index('class="card needs"')])
    assert "Broker confirms nothing" in line
    assert "Database replaced server still takes writes" in line


def events_of(installation: Installation, owner: str) -> dict[str, dict[str, Any]]:
    """The events that somebody sees, by what they are about."""
    board = program(installation, owner).call("GET", "/board").get_json()
    return {
        event["subject"].rpartition("failed: ")[2] or event["kind"]: event
        for event in board["events"]
    }


def test_an_outage_of_several_apps_is_one_event_of_the_readers_apps(
    installation: Installation,
) -> None:
    events = events_of(installation, "anna")
    refused = events["Connection refused"]
    rejected = events['FATAL: password authentication failed for user "svc_sync"']
    searched = events_of(installation, "samu")

    assert (refused["count"], refused["recovered"], refused["app"]) == (31, 23, None)
    assert (rejected["count"], rejected["recovered"], rejected["until"]) == (8, 0, None)
    assert refused["until"] is not None
    own = searched["Connection refused"]
    assert (own["count"], own["recovered"], own["app"]) == (5, 4, "search")
    assert not [subject for subject in searched if "password" in subject]


def test_a_bar_of_the_picture_lists_the_jobs_that_it_hit(installation: Installation) -> None:
    outage, events = installation.outage, events_of(installation, "anna")
    mails = {name for name in outage.jobs if name.startswith("mail-")}
    expected = {
        "Connection refused": outage.one_error | outage.recovered,
        'FATAL: password authentication failed for user "svc_sync"': outage.one_error,
        "warehouse-1": {"copy-customers"},
        "warehouse": {"copy-items", "load-orders"},
        "ops: CRM-482": mails,
        "NO_SCHEDULER": outage.skipped,
    }

    found = {}
    for subject, event in events.items():
        page = installation.admin.get(f"/?event={event['id']}").text
        found[subject] = set(re.findall(r"data-open[^>]*>([^<]+)</a>", page))
        assert f'href="/?event={event["id"]}#needs"' in page, subject
        [chip] = re.findall(r'<p class="chips"><a href="([^"]+)"', page)
        assert chip == "/", subject

    assert found == expected


def test_a_time_without_a_scheduler_says_how_long_it_was_and_what_it_cost(
    installation: Installation,
) -> None:
    page = installation.admin.get("/").text
    counts = {
        name: events_of(installation, name)["NO_SCHEDULER"]["count"]
        for name in ("anna", "samu", "vicky")
    }

    assert "no scheduler for 9 min 8 due times skipped" in words(page)
    assert counts == {"anna": 8, "samu": 0, "vicky": 0}


def test_a_bar_of_a_foreign_app_filters_nothing(installation: Installation) -> None:
    foreign = events_of(installation, "anna")["ops: CRM-482"]["id"]

    page = installation.searcher.get(f"/?event={foreign}").text

    assert 'class="chips"' not in page
    assert "index-build" in page
    assert "mail-" not in page


def test_a_job_that_takes_longer_than_last_week_is_in_trouble(installation: Installation) -> None:
    page = installation.admin.get("/").text
    [job] = [
        job
        for job in program(installation, "anna").call("GET", "/board").get_json()["jobs"]
        if job["job"] == "snapshot-clicks"
    ]

    assert "1 job took much longer than usual." in page
    assert re.search(r"took [\w ]+, usually [\w ]+, a week ago 1 min \d+ s", page)
    assert (job["trouble"], 80 < job["last_week"] < 120) == ("SLOW", True)
    assert job["usual"] > 2 * job["last_week"] + 10


def listed(page: str) -> list[str]:
    """The jobs of a list, in order."""
    return re.findall(r'class="job-name">.*?href="/jobs/\d+">([^<]+)</a>', page, re.DOTALL)


def test_jobs_are_listed_by_how_much_slower_they_are_than_a_week_ago(
    installation: Installation,
) -> None:
    page = installation.admin.get("/jobs?order=change").text

    assert listed(page)[0] == "snapshot-clicks"
    [change] = re.findall(r'class="number-cell slower">\+(\d+) %</td>', page)
    assert 200 < int(change) < 350
    assert 'aria-sort="descending"><a href="/jobs?order=change">' in page
    assert ">enabled<" not in page[page.index("<tbody>") :]


@pytest.mark.parametrize("order", ["ended", "took", "change", "share"])
def test_each_order_lists_every_job_once(installation: Installation, order: str) -> None:
    path, names = f"/jobs?order={order}", []
    while path:
        page = installation.admin.get(path).text
        names += listed(page)
        further = re.findall(r'href="(/jobs\?[^"]*after=[^"]*)"[^>]*>Next', page)
        path = further[0].replace("&amp;", "&") if further else ""

    assert len(names) == len(set(names)) == 120
    first = {"took": "load-orders", "change": "snapshot-clicks", "share": "snapshot-clicks"}
    assert names[0] == first.get(order, names[0])


def test_the_list_of_jobs_shows_their_last_due_times_and_what_is_usual(
    installation: Installation,
) -> None:
    page = installation.searcher.get("/jobs?name=index-build").text

    assert listed(page) == ["index-build"]
    assert re.search(r"last due times: 1\d succeeded, 1\d failed, 0 skipped", page)
    assert re.search(r'class="took">[\d.]+ s <span class="quiet">\([\d.]+ s\)', page)
    assert re.search(r'class="number-cell">1 %</td>', page)


def test_labels_of_outages_are_short_and_say_what_differs(installation: Installation) -> None:
    page = installation.admin.get("/").text

    labels = re.findall(r'<tspan class="what">([^<]+)</tspan> ([^<]*)</text>', page)
    assert ("Connection refused", "31 jobs · 23 recovered") in labels
    assert ("executor warehouse-1 gone", "1 run lost") in labels
    assert max(len(label) for label, _ in labels) <= 60


def test_what_is_counted_once_is_said_in_the_singular(installation: Installation) -> None:
    page = words(installation.admin.get("/").text)

    assert "Runs of 1 job wait for longer than usual." in page
    assert "2 jobs have been running for much longer than usual." in page
    assert re.findall(r"\b1 (?:jobs|runs|slots)\b", page) == []


def test_a_reader_of_one_app_sees_nothing_of_others(installation: Installation) -> None:
    page = installation.searcher.get("/").text

    assert "<h1>2 of " in page
    for name in installation.outage.failing | installation.outage.skipped:
        is_own = name in ("index-shard-1", "index-build")
        assert (f">{name}</a>" in page) is is_own, name
    assert "stripe" not in page
    assert "/data/export" not in page


def test_a_viewer_sees_no_buttons_that_it_may_not_press(installation: Installation) -> None:
    page = installation.viewer.get("/").text

    assert "fx-rates" in page
    assert "data-rerun" not in page


def test_what_runs_for_long_leads_to_its_own_log_and_to_killing_it(
    installation: Installation,
) -> None:
    page, outage = installation.admin.get("/").text, installation.outage
    rows = {
        job: page[page.index(f'data-row="{outage.jobs[job]}"') :].partition("</li>")[0]
        for job in ("load-orders", "purge-caches")
    }
    [(logged, killed)] = re.findall(
        r'data-log href="/runs/(\d+)/shards".*data-kill href="/runs/(\d+)/shards#kill"',
        rows["purge-caches"],
        re.DOTALL,
    )

    assert f'data-log href="/runs/{outage.long_run}/log"' in rows["load-orders"]
    assert f'data-kill href="/runs/{outage.long_run}#kill"' in rows["load-orders"]
    assert {int(logged), int(killed)} <= set(outage.long_shards)
    assert "data-kill" not in installation.viewer.get("/").text


def program(installation: Installation, owner: str) -> Program:
    token = make_token(installation.database, installation.clock, owner, scopes=[Scope.READ])
    return Program(make_api(installation.database, installation.clock), token)


def test_the_api_says_the_same_and_only_of_the_tokens_apps(installation: Installation) -> None:
    everything = program(installation, "anna").call("GET", "/board").get_json()
    searched = program(installation, "samu").call("GET", "/board").get_json()

    assert (everything["failing"], everything["recovered"], everything["total"]) == (13, 23, 120)
    assert everything["groups"][0]["jobs"] == 8
    assert {job["job"] for job in searched["jobs"]} == {
        "index-shard-1",
        "index-build",
        "purge-caches",
    }
    assert "stripe" not in json.dumps(searched)
    sums = [
        sum(quarter["failed"] for quarter in board["quarters"]) for board in (everything, searched)
    ]
    assert 0 < sums[1] < sums[0]


def test_jobs_can_be_listed_by_how_they_are_doing(installation: Installation) -> None:
    ann, outage = program(installation, "anna"), installation.outage

    def names(state: str) -> set[str]:
        answer = ann.call("GET", f"/jobs?state={state}&limit=200").get_json()
        return {job["name"] for job in answer["items"]}

    assert names("failing") == outage.failing
    assert names("recovered") == outage.recovered
    others = {"copy-items", "load-orders", "purge-caches", "snapshot-clicks"}
    assert names("trouble") == outage.failing | outage.skipped | others
    assert len(names("fine")) == 95


@pytest.mark.usefixtures("restored_logs")
def test_the_command_line_says_the_sentence_and_its_status_tells_scripts(
    installation: Installation,
) -> None:
    url = str(installation.database.url)

    env = {"WARREN_DATABASE_URL": url}
    done = CliRunner().invoke(root, ["status"], env=env, standalone_mode=False)
    as_json = CliRunner().invoke(root, ["status", "--json"], env=env, standalone_mode=False)

    assert done.output.startswith("13 of 120 jobs fail; 8 share one error since ")
    assert "copy-customers" in done.output
    assert (done.return_value, as_json.return_value) == (2, 2)
    assert json.loads(as_json.output)["failing"] == 13


@pytest.mark.usefixtures("restored_logs")
def test_a_mute_is_told_in_the_row_and_ends_when_somebody_says_so(
    installation: Installation,
) -> None:
    job_id = installation.outage.jobs["fx-rates"]
    asked = installation.admin.get(f"/mutes/ask?id={job_id}")
    assert "fx-rates" in asked.text

    form = {"id": str(job_id), "span": "4h", "why": "the partner knows", "silent": "1"}
    muted = installation.admin.post("/mutes", form, follow_redirects=True).text
    assert "muted until" in muted
    assert "by anna: the partner knows" in words(muted)
    env = {"WARREN_DATABASE_URL": str(installation.database.url)}
    listed = CliRunner().invoke(root, ["status"], env=env).output
    assert "no answer within 30 s · muted by anna, ends in 4 h: the partner knows\n" in listed

    ended = installation.admin.post("/mutes", form | {"end": "1"}, follow_redirects=True).text
    assert "muted until" not in ended


def test_nobody_mutes_jobs_of_foreign_apps(installation: Installation) -> None:
    foreign = installation.outage.jobs["fx-rates"]

    asked = installation.searcher.get(f"/mutes/ask?id={foreign}", follow_redirects=True).text
    done = installation.searcher.post("/mutes", {"id": str(foreign)}, follow_redirects=True).text

    assert "No job was selected." in asked
    assert f"no job with id {foreign}" in done
    assert "muted until" not in installation.admin.get("/").text


def test_the_search_keeps_what_tells_errors_apart_and_leads_to_older_ones(
    installation: Installation,
) -> None:
    rejected = installation.admin.get("/find?part=1&q=password").text
    refused = installation.admin.get("/find?part=1&q=refused").text

    assert "authentication failed for user" in words(rejected)
    assert 'href="/runs/errors?text=refused"' in refused
