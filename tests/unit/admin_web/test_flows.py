"""Flows as pages: the graph and the bars of a run, and the form in which a flow is typed."""

import re
from html import unescape

import pytest
from flask import Flask
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tests.support.console import Clock, Visit, make_app, once_of, signed_in
from tests.support.flow_rows import FlowRows, night
from tests.support.stored_rows import Rows
from warren.admin_web.services import FlowTexts
from warren.sql.engine import Database
from warren.sql.models import FlowNode, Job, Run
from warren.sql.run_status import Kind
from warren.sql.runs import flow_nodes
from warren.wiring.web import read_flow_text, write_flow_text


@pytest.fixture
def app(database: Database, clock: Clock) -> Flask:
    texts = FlowTexts(read=read_flow_text, write=write_flow_text)
    return make_app(database, clock, flow_texts=texts)


def boxes(page: str) -> dict[str, str]:
    """Return what the boxes of a graph say, by the name of their node."""
    titles = re.findall(r'<g class="node [a-z-]+"><title>([^<]*)</title>', page)
    return dict(unescape(title).split(": ", 1) for title in titles)


def test_a_node_whose_run_is_open_is_not_left_behind(rows: Rows, clock: Clock) -> None:
    flow = night(rows, clock.now)

    def left(session: Session) -> list[str]:
        return [node.node for node in flow_nodes.left_behind(session, before_ms=clock.now)]

    assert rows.database.read(left) == []
    rows.database.write(
        lambda session: session.execute(
            delete(Run).filter_by(status="RUNNING", origin_id=flow.nodes["parts"])
        )
    )
    assert rows.database.read(left) == ["parts"]


def test_a_job_that_is_a_node_is_drawn_behind_its_flow(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    flow = night(rows, clock.now)

    of_node = admin.get(f"/jobs/{flow.jobs['load']}").text
    of_flow = admin.get(f"/jobs/{flow.job_id}").text

    family = r'<svg class="family.*?</svg>'
    [drawn] = re.findall(family, of_node, re.DOTALL)
    assert f'href="/jobs/{flow.job_id}"' in drawn
    [drawn] = re.findall(family, of_flow, re.DOTALL)
    assert all(f'href="/jobs/{node}"' in drawn for node in flow.jobs.values())


def test_a_flow_that_runs_has_no_executor_on_any_page(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    flow = night(rows, clock.now)
    pages = "/", "/runs", "/timeline", f"/jobs/{flow.job_id}", f"/runs/{flow.run_id}"

    shown = {path: re.findall(r">\s*None\s*<", admin.get(path).text) for path in pages}

    assert [path for path in pages if shown[path]] == []


class TestRun:
    def test_the_graph_tells_the_state_of_each_node_and_leads_to_its_run(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        flow = night(rows, clock.now)

        page = admin.get(f"/runs/{flow.run_id}").text

        assert boxes(page) == {
            "extract": "succeeded · 10 s",
            "load": "succeeded · 30 s",
            "parts": "running · 2 of 3 · 20 s",
            "mend": "bypassed. load succeeded, and its failure was needed",
            "report": "not yet begun",
        }
        assert re.search(r'<a href="/runs/\d+"><g class="node busy"><title>parts', page)
        assert '<a href="#node-report"><g class="node quiet"><title>report' in page
        assert page.count('class="edge success taken"') == 2 + 1  # one of them explains it
        assert 'class="edge failure dead"' in page
        assert 'id="run" data-live="2"' in page

    def test_each_node_has_a_row_with_its_bar_its_runs_and_its_reason(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        flow = night(rows, clock.now)

        page = admin.get(f"/runs/{flow.run_id}").text

        row = dict(re.findall(r'<tr id="node-(\w+)">(.*?)</tr>', page, re.DOTALL))
        assert list(row) == ["extract", "load", "parts", "mend", "report"]
        load = re.search(
            r'class="wait" x="(\d+)" y="4" width="(\d+)".*class="good" x="(\d+)" width="(\d+)"',
            row["load"],
        )
        assert load
        assert list(map(int, load.groups())) == [166, 17, 183, 483]
        assert "attempt 2" in row["load"]
        assert "2 of 3, 1 failed" in row["parts"]
        assert "load succeeded, and its failure was needed" in row["mend"]
        assert '<svg class="node-bar' not in row["report"]

    def test_a_flow_is_shown_before_it_is_opened(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        flow = FlowRows(rows, clock.now + 60_000)

        assert set(boxes(admin.get(f"/runs/{flow.run_id}").text).values()) == {"not yet begun"}

    def test_of_an_exception_a_node_tells_the_first_line(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        begun, reason = clock.now - 9_000, "OSError: full\nTraceback (most recent call last): …"
        flow = FlowRows(rows, begun, {"load": {"job": "load"}}, status="FAILED")
        flow.open(
            load={"outcome": "FAILED", "begun_at": begun, "ended_at": begun, "reason": reason}
        )

        page = admin.get(f"/runs/{flow.run_id}").text

        assert "OSError: full" in page
        assert "Traceback" not in page

    def test_a_run_whose_graph_is_gone_still_has_its_nodes(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        flow = night(rows, clock.now)
        rows.database.write(lambda s: setattr(s.get_one(Run, flow.run_id), "script_version", 999))

        page = admin.get(f"/runs/{flow.run_id}").text

        assert "The graph of this run is no longer kept." in page
        assert 'id="node-parts"' in page

    def test_the_run_of_a_node_leads_to_its_flow_and_to_its_repetition(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        flow = night(rows, clock.now)
        run_id = flow.run("extract", "SUCCEEDED", attempt=1, kind=Kind.RETRY)

        page = admin.get(f"/runs/{run_id}").text

        assert f'href="/runs/{flow.run_id}#node-extract">nightly</a>' in page
        assert f'href="/runs/{flow.run_id}?node=extract#run-again"' in page

    def test_a_node_of_another_app_does_not_lead_where_the_visitor_may_not_go(
        self, app: Flask, rows: Rows, clock: Clock
    ) -> None:
        rows.job("sent", app="mails")
        flow = FlowRows(rows, clock.now - 9_000, {"sent": {"job": "sent"}}, status="RUNNING")
        flow.open(sent={"shards": 1, "begun_at": clock.now - 9_000})
        run_id = flow.run("sent", "RUNNING")

        page = signed_in(app, "viewer").get(f"/runs/{flow.run_id}").text

        assert f"/runs/{run_id}" not in page
        assert boxes(page) == {"sent": "running · 9 s"}

    def test_a_large_flow_is_refreshed_less_often(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        nodes = {
            f"n{k}": {"job": "load", "after": "n0"} if k else {"job": "load"} for k in range(200)
        }
        flow = FlowRows(rows, clock.now - 9_000, nodes, status="RUNNING")
        flow.open(n7={"outcome": "FAILED", "shards": 1, "begun_at": 1, "ended_at": 2})

        page = admin.get(f"/runs/{flow.run_id}").text

        assert 'id="run" data-live="10"' in page
        assert boxes(page)["199 nodes"] == "not yet begun 198, failed 1"
        assert '<a href="#node-n7"><g class="node bad"><title>199 nodes' in page


class TestRunAgain:
    def test_what_failed_runs_again_and_the_rest_is_kept(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        flow = FlowRows(
            rows, clock.now - 60_000, {"a": {"job": "a"}, "b": {"job": "b", "after": "a"}}
        )
        over = {"shards": 1, "begun_at": clock.now - 60_000, "ended_at": clock.now - 50_000}
        flow.open(a=over | {"outcome": "SUCCEEDED"}, b=over | {"outcome": "FAILED"})
        flow.over("FAILED")
        page = admin.get(f"/runs/{flow.run_id}").text

        answer = admin.post(
            f"/runs/{flow.run_id}/again", {"once": once_of(page), "part": "failed", "node": "a"}
        )

        assert 'value="failed" checked' in page
        again = int(answer.headers["Location"].rpartition("/")[2])
        kept = rows.database.read(
            lambda s: dict(
                s.execute(
                    select(FlowNode.node, FlowNode.outcome).where(FlowNode.flow_run_id == again)
                ).all()
            )
        )
        assert kept["a"] == "KEPT"
        assert kept.get("b") is None

    def test_a_row_opens_the_question_with_its_node(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        flow = FlowRows(rows, clock.now - 60_000)
        flow.open()
        flow.over("FAILED")

        assert 'href="?node=load#run-again"' in admin.get(f"/runs/{flow.run_id}").text
        page = admin.get(f"/runs/{flow.run_id}?node=load").text
        assert 'id="run-again" open' in page
        assert 'value="from" checked' in page
        assert "<option selected>load</option>" in page


class TestJob:
    def test_its_page_shows_the_graph_and_leads_to_the_jobs_and_back(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        flow = FlowRows(rows, clock.now)

        page = admin.get(f"/jobs/{flow.job_id}").text

        assert boxes(page)["report"] == "report · any · if"
        assert (
            f'<a href="/jobs/{flow.jobs["part"]}"><g class="node plain-node"><title>parts' in page
        )
        of_node = admin.get(f"/jobs/{flow.jobs['part']}").text
        assert f'<a href="/jobs/{flow.job_id}">reports/nightly</a>' in of_node


class TestForm:
    @pytest.fixture(autouse=True)
    def jobs(self, rows: Rows) -> None:
        for name in ("extract", "load"):
            rows.job(name)

    def preview(self, visit: Visit, text: str) -> str:
        visit.get("/jobs/new")
        form = {"language": "FLOW", "app": "reports", "name": "nightly", "flow": text}
        return visit.post("/jobs/flow-preview", form).text

    def test_a_flow_is_drawn_while_it_is_typed(self, admin: Visit) -> None:
        yaml = self.preview(admin, "extract: {job: extract}\nload: {job: load, after: extract}")
        json = self.preview(admin, '{"extract": {"job": "extract"}}')

        assert boxes(yaml) == {"extract": "extract", "load": "load"}
        assert boxes(json) == {"extract": "extract"}

    def test_what_is_wrong_is_told_with_its_line(self, admin: Visit) -> None:
        wrong = {
            "a: {job: load}\nb: {job: load, after: c}": "Line 2: node b runs after 'c', which is",
            "a: {job: load}\n\nb: {job: new}": "Line 3: node b of job nightly: unknown job 'new'",
            "a: {job: load}\nb: [": ": not YAML: ",
            "a: {job: load}\na: {job: load}": "duplicate field 'a'",
            "a: {job: load, after: b}\nb: {job: load, after: a}": "form a cycle: a -> b -> a",
            "a: {job: load}\nif: {job: load}": "Line 2: expected nodes to have names",
        }

        assert {
            text: words
            for text, words in wrong.items()
            if words not in unescape(self.preview(admin, text))
        } == {}

    def test_it_is_saved_and_comes_back_as_it_is_written(self, admin: Visit, rows: Rows) -> None:
        text = "extract: {job: extract}\nload: {job: load, after: {extract: failure}}\n"
        page = admin.get("/jobs/new").text
        form = {"language": "FLOW", "app": "reports", "name": "nightly", "flow": text}

        answer = admin.post("/jobs/create", form | {"schedule_kind": "NONE"})

        assert '<option value="FLOW">' in page
        assert answer.status_code == 303, answer.text
        job_id = int(answer.headers["Location"].rpartition("/")[2])
        edit = unescape(admin.get(f"/jobs/{job_id}/edit").text)
        assert text.strip() in edit
        seen = re.search(r'name="seen"[^>]*value="([^"]*)"', edit)
        assert seen
        changed = form | {"flow": "load: {job: load}", "seen": seen[1], "schedule_kind": "NONE"}
        assert admin.post(f"/jobs/{job_id}/save", changed).status_code == 303
        flow = rows.database.read(lambda s: s.get_one(Job, job_id).flow)
        assert flow == '{"load":{"job":"load"}}'

    def test_a_wrong_one_is_not_saved(self, admin: Visit) -> None:
        admin.get("/jobs/new")
        form = {"language": "FLOW", "app": "reports", "name": "nightly", "schedule_kind": "NONE"}

        unknown = admin.post("/jobs/create", form | {"flow": "a: {job: new}"})
        empty = admin.post("/jobs/create", form)

        assert (unknown.status_code, empty.status_code) == (422, 422)
        assert "Line 1: node a of job nightly: unknown job" in unescape(unknown.text)
        assert "expected a flow of 1 to 1000 nodes, got: 0" in unescape(empty.text)


class TestList:
    def test_runs_of_nodes_name_their_flow_and_can_be_left_out(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        flow = night(rows, clock.now)

        everything = admin.get("/runs").text
        rest = admin.get("/runs?kind=outside_flows").text

        assert re.search(rf'href="/runs/{flow.run_id}">nightly · parts</a>', everything)
        assert re.findall(r'class="run-link" href="/runs/(\d+)"', rest) == [str(flow.run_id)]
