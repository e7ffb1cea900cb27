"""The flow of a job while it is typed: its graph, and what is wrong with it by line."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from flask import url_for
from flask_babel import gettext
from sqlalchemy.orm import Session

from warren.admin_web.flows.layout import Box, Drawing, draw
from warren.admin_web.flows.picture import Mark, Picture, picture
from warren.admin_web.language.labels import problem_text
from warren.admin_web.services import FlowTexts
from warren.scheduler.flows.graph import FIELD, MAX_BYTES, Graph, Join, Node, parse
from warren.scheduler.jobs.dependencies import KnownJobs
from warren.scheduler.problems import Code, Problem, Refused

#: A job's app and name.
Name = tuple[str, str]
#: Stands for a flow that cannot be read; no job may be saved with it.
NO_GRAPH = Graph({})


@dataclass(frozen=True, slots=True)
class LineProblem:
    """What is wrong, and the line of the text that it is about."""

    line: int
    words: str

    @property
    def text(self) -> str:
        """Both, as a message beside a field."""
        return str(gettext("Line %(line)s: %(words)s", line=self.line, words=self.words))


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedFlow:
    """A text that was read: its graph, NO_GRAPH if it is wrong; `line` is that of a field."""

    graph: Graph = NO_GRAPH
    line: Callable[[str], int] = lambda _field: 1
    problems: Sequence[LineProblem] = ()

    def at_line(self, problem: Problem) -> LineProblem:
        """Return a problem with the line that it is about."""
        field, facts = problem.field, problem.facts
        if field == FIELD:  # of a name, or of a circle
            first = str(facts.get("path") or facts.get("got") or "").partition(" -> ")[0]
            field = f"{FIELD}/{first}"
        return LineProblem(self.line(field), problem_text(problem))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPreview:
    """What the form shows beside the text."""

    problems: Sequence[LineProblem]
    picture: Picture | None
    nodes: int


def read_flow(texts: FlowTexts, text: str) -> TypedFlow:
    """Return what a text says."""
    if len(text) > MAX_BYTES:
        long = Problem(Code.FLOW_TOO_LONG, FIELD, most=MAX_BYTES, got=len(text))
        return TypedFlow(problems=[LineProblem(1, problem_text(long))])
    if not text.strip():
        return TypedFlow()
    source = texts.read(text)
    if source.problem:
        return TypedFlow(problems=[LineProblem(*source.problem)])
    typed = TypedFlow(line=source.line)
    try:
        return replace(typed, graph=parse(source.values))
    except Refused as refused:
        problems = sorted(map(typed.at_line, refused.problems), key=lambda problem: problem.line)
        return replace(typed, problems=problems)


def preview(
    session: Session, typed: TypedFlow, place: Name, app_ids: Mapping[str, int]
) -> FlowPreview:
    """Return the preview of a flow with this place; `app_ids` are the visitor's apps by name."""
    app, job = place
    graph = typed.graph
    if not graph.nodes:
        return FlowPreview(problems=typed.problems, picture=None, nodes=0)
    known = KnownJobs(session)
    ids = known.ids((_place(app, node) for node in graph.nodes.values()), app_ids)
    flows = known.flows(ids.values())
    wrong = []
    for node in graph.nodes.values():
        job_id = ids.get(_place(app, node))
        if job_id is not None and job_id not in flows:
            continue
        code = Code.FLOW_JOB_UNKNOWN if job_id is None else Code.FLOW_IN_FLOW
        facts = {"node": node.name, "job": job, "got": node.job}
        wrong.append(typed.at_line(Problem(code, f"{FIELD}/{node.name}/job", **facts)))
    return FlowPreview(problems=wrong, picture=job_picture(graph, app, ids), nodes=len(graph.nodes))


def job_picture(graph: Graph, app: str, ids: Mapping[Name, int]) -> Picture:
    """Return the picture of a job's flow, with links to the jobs that are known by name."""

    def mark(box: Box) -> Mark:
        if len(box.nodes) > 1:
            name = str(gettext("%(n)s nodes", n=len(box.nodes)))
            some = ", ".join([*box.nodes[:10], "…"])
            return Mark(box=box, name=name, detail=some, title=f"{name}: {some}", is_stack=True)
        node = graph.nodes[box.nodes[0]]
        job_id = ids.get(_place(app, node))
        detail = " · ".join([node.job, *_signs(node)])
        return Mark(
            box=box,
            name=node.name,
            detail=detail,
            title=f"{node.name}: {detail}",
            url=url_for("jobs.show", job_id=job_id) if job_id else "",
            is_stack=bool(node.each),
        )

    drawing: Drawing = draw(graph)
    return picture(drawing, mark)


def _signs(node: Node) -> list[str]:
    """Return which options of a node a reader has to know."""
    is_any = node.join is Join.ANY and len(node.after) > 1
    signs = {"any": is_any, "if": bool(node.condition), "each": bool(node.each)}
    return [sign for sign, is_set in signs.items() if is_set]


def _place(app: str, node: Node) -> Name:
    own, _, name = node.job.rpartition("/")
    return own or app, name
