"""The graph of a flow: its nodes, what each runs after, and how it is stored.

    extract: {job: extract}
    load:    {job: load, after: extract, param_template: "{{ extract.result.rows }}"}
    mend:    {job: mend, after: {load: failure}}
    report:  {job: report, after: [load, mend], join: any, if: "{{ load.result.rows > 0 }}"}

It is read from the JSON value `flow` of a job. Each refusal names the node, and its
field says where: `flow/load/after`.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from warren.broker.durations import whole_seconds
from warren.broker.messages import cut_message
from warren.resources.runs import Condition, Join
from warren.scheduler.expressions import FUNCTIONS, Fault, read_expression, read_template
from warren.scheduler.problems import Code, FieldName, Problem, Word, refusal, unknown_word
from warren.sql.models.job_tables import Backoff

#: The most nodes of a flow, and the most runs of a node with `each`.
MAX_NODES, MAX_SHARDS = 1_000, 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRetry:
    """What a node says about retries instead of its job; None = as the job says.

    Attributes:
        times: how many retries its runs have.
        delay: the wait before each, in seconds; with an exponential backoff, before the first.
        backoff: `fixed` or `exponential`.
        most: the longest wait of a backoff, in seconds.
        jitter: the share of each wait that is left to chance.

    """

    times: int | None = None
    delay: int | None = None
    backoff: str | None = None
    most: int | None = None
    jitter: float | None = None


NO_RETRY = NodeRetry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a flow.

    Attributes:
        job: NAME of a job of the flow's app, or APP/NAME.
        after: the nodes that it runs after, and what must become of each.
        condition: an expression that must be true, too.
        each: an expression that gives a list; the node has a run for each of its elements.
        param: None = as the job says.
        param_template: makes the param of its runs; instead of `param`.

    """

    name: str
    job: str
    after: Mapping[str, Condition] = field(default_factory=dict)
    join: Join = Join.ALL
    condition: str = ""
    each: str = ""
    param: str | None = None
    param_template: str = ""
    retry: NodeRetry = NO_RETRY

    def to_mapping(self) -> dict[str, Any]:
        """Return the node as a job file has it, in the shortest form."""
        retry = {name: getattr(self.retry, name) for name in self.retry.__slots__}
        times = retry.pop("times")
        said: dict[str, Any] = {
            "job": self.job,
            "after": _short_after(self.after),
            "join": None if self.join is Join.ALL else self.join.value,
            "if": self.condition or None,
            "each": self.each or None,
            "param": self.param,
            "param_template": self.param_template or None,
            "retries": times,
            "retry": {name: value for name, value in retry.items() if value is not None} or None,
        }
        return {key: value for key, value in said.items() if value is not None}


@dataclass(frozen=True)
class Graph:
    """The nodes of a flow by name, in the order in which they are written; without a circle."""

    nodes: Mapping[str, Node]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The names of the nodes, each behind all that it runs after."""
        return tuple(ordered(self.nodes))

    @cached_property
    def followers(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes that run after each node."""
        followers: dict[str, list[str]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for before in node.after:
                followers[before].append(node.name)
        return {name: tuple(names) for name, names in followers.items()}

    def is_handled(self, name: str) -> bool:
        """Whether a node runs after the failure of a node."""
        return any(
            self.nodes[follower].after[name] is Condition.FAILURE
            for follower in self.followers[name]
        )

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs of its nodes, each once, as NAME of the flow's app or APP/NAME."""
        return tuple(dict.fromkeys(node.job for node in self.nodes.values()))

    def with_jobs(self, job: Callable[[str], str]) -> "Graph":
        """Return the same graph with another name for each job."""
        return Graph({name: replace(node, job=job(node.job)) for name, node in self.nodes.items()})

    def to_mapping(self) -> dict[str, Any]:
        """Return the graph as a job file has it."""
        return {name: node.to_mapping() for name, node in self.nodes.items()}

    def to_json(self) -> str:
        """Return the canonical form that is stored; equal graphs have the same."""
        return json.dumps(self.to_mapping(), ensure_ascii=False, separators=(",", ":"))

    def descendants(self, names: Collection[str]) -> set[str]:
        """Return these nodes and all that run after them."""
        reached = set(names)
        for name in self.order:
            if not reached.isdisjoint(self.nodes[name].after):
                reached.add(name)
        return reached


def ordered(nodes: Mapping[str, Node]) -> list[str]:
    """Return the names of nodes, each behind all that it runs after; without those in circles."""
    left = {name: sum(before in nodes for before in node.after) for name, node in nodes.items()}
    followers: dict[str, list[str]] = {name: [] for name in nodes}
    for node in nodes.values():
        for before in node.after:
            if before in followers:
                followers[before].append(node.name)
    order = [name for name, count in left.items() if not count]
    for name in order:
        for follower in followers[name]:
            left[follower] -= 1
            if not left[follower]:
                order.append(follower)
    return order


def circle_in(nodes: Mapping[str, Node]) -> list[str]:
    """Return the path of a circle, its first node again at the end; empty without one."""
    left = set(nodes) - set(ordered(nodes))
    # Each node that is left follows another one: walk backwards until a node repeats.
    path: list[str] = []
    name = next((name for name in nodes if name in left), "")
    while name and name not in path:
        path.append(name)
        name = next(before for before in nodes[name].after if before in left)
    return [name, *reversed(path[path.index(name) :])] if path else []


def _short_after(after: Mapping[str, Condition]) -> Any:
    if any(condition is not Condition.SUCCESS for condition in after.values()):
        return {name: condition.value for name, condition in after.items()}
    return next(iter(after)) if len(after) == 1 else list(after) or None


def certainly_over(graph: Graph) -> Mapping[str, tuple[str, ...]]:
    """Return for each node those that have ended when it begins, in the order of the flow.

    Sets of nodes are the bits of numbers, so that a flow with MAX_NODES takes milliseconds.
    """
    order = graph.order
    bit = {name: 1 << number for number, name in enumerate(order)}
    everything = (1 << len(order)) - 1
    #: Which nodes have ended when a node begins, and when it is bypassed; `everything` = never.
    begun: dict[str, int] = {}
    bypassed: dict[str, int] = {}
    for name in order:
        node = graph.nodes[name]
        if_true, if_false = [], []
        for before, condition in node.after.items():
            ended = bit[before] | (begun[before] & bypassed[before])
            ran = bit[before] | begun[before]
            if_true.append(ended if condition is Condition.ALWAYS else ran)
            if_false.append(everything if condition is Condition.ALWAYS else ended)
        needs_all = node.join is Join.ALL or not node.after
        begun[name] = _union(if_true) if needs_all else _common(if_true, everything)
        bypassed[name] = _common(if_false, everything) if needs_all else _union(if_false)
        if node.condition:
            bypassed[name] &= begun[name]
    return {name: tuple(other for other in order if begun[name] & bit[other]) for name in order}


def _union(sets: list[int]) -> int:
    union = 0
    for each in sets:
        union |= each
    return union


def _common(sets: list[int], everything: int) -> int:
    common = everything
    for each in sets:
        common &= each
    return common


#: The field of a job that holds its flow.
FIELD = "flow"
#: The longest name of a node.
NAME_LENGTH = 64
#: The most bytes of a graph as JSON: it is kept like a script.
MAX_BYTES = 512 * 1024
#: What expressions of all nodes may name: what the run is about, and the param of the flow's run.
RUN_NAMES = ("run_date", "scheduled_at", "job", "app", "param")
#: In the param template of a node with `each`: the element, and its number from 0 on.
ELEMENT_NAMES = ("item", "index")
#: What no node may be named: an expression would read it as something else.
RESERVED = frozenset(
    {*RUN_NAMES, *ELEMENT_NAMES, *FUNCTIONS, "and", "or", "not", "in", "is", "if", "else"}
    | {"true", "false", "none", "True", "False", "None"}
)
_OPTIONS = ("job", "after", "join", "if", "each", "param", "param_template", "retries", "retry")
_WORDS = {"join": Word.JOIN, "after": Word.CONDITION}
_RETRY_OPTIONS = ("times", "delay", "backoff", "most", "jitter")
_MAX_RETRIES, _MAX_SECONDS = 1_000, 9_999_999


def parse(flow: Any) -> Graph:
    """Return the graph of a `flow` mapping.

    Raises:
        Refused: with everything that is wrong with it.

    """
    return _Reader().read(flow)


@lru_cache(maxsize=256)
def stored_graph(source: str) -> Graph:
    """Return the graph that a job or a version of type FLOW holds.

    Raises:
        Refused: it was changed in the database.

    """
    try:
        flow = json.loads(source)
    except ValueError as error:
        raise Problem(Code.FLOW_FORM, FIELD, got=_quoted(source)) from error
    return _Reader().read(flow)


class _Reader:
    def __init__(self) -> None:
        self._wrong: list[Problem] = []

    def read(self, flow: Any) -> Graph:
        """Return the graph, or raise Refused."""
        if not isinstance(flow, Mapping):
            raise Problem(Code.FLOW_FORM, FIELD, got=_quoted(flow))
        if not 1 <= len(flow) <= MAX_NODES:
            raise Problem(Code.FLOW_SIZE, FIELD, most=MAX_NODES, got=len(flow))
        nodes = {str(name): self._node(str(name), said) for name, said in flow.items()}
        self._check_edges(nodes)
        if self._wrong:
            raise refusal(self._wrong)
        if circle := circle_in(nodes):
            raise Problem(Code.FLOW_CIRCLE, f"{FIELD}/{circle[0]}/after", path=" -> ".join(circle))
        graph = Graph(nodes)
        if (size := len(graph.to_json().encode(errors="replace"))) > MAX_BYTES:
            raise Problem(Code.FLOW_TOO_LONG, FIELD, most=MAX_BYTES, got=size)
        if wrong := list(_expression_problems(graph)):
            raise refusal(wrong)
        return graph

    def _node(self, name: str, said: Any) -> Node:
        place = f"{FIELD}/{name}"
        if not name.isidentifier() or len(name) > NAME_LENGTH or name in RESERVED:
            self._wrong.append(
                Problem(Code.FLOW_NODE_NAME, FIELD, most=NAME_LENGTH, got=name[:100])
            )
        if not isinstance(said, Mapping):
            self._refuse(Code.FLOW_NODE_FORM, name, "", said)
            return Node(name=name, job="")
        for option in said:
            if option not in _OPTIONS:
                self._wrong.append(unknown_word(place, Word.OPTION, str(option), _OPTIONS))
        if said.get("param") is not None and said.get("param_template"):
            self._wrong.append(Problem(Code.PARAM_AND_TEMPLATE, f"{place}/param_template"))
        if said.get("param") is not None and said.get("each"):
            self._wrong.append(Problem(Code.FLOW_PARAM_AND_EACH, f"{place}/param", node=name))
        param = said.get("param")
        return Node(
            name=name,
            job=self._job(name, said.get("job")),
            after=self._after(name, said.get("after")),
            join=Join(self._choice(name, "join", said.get("join"), list(Join)) or Join.ALL),
            condition=self._expression(name, "if", said.get("if")),
            each=self._expression(name, "each", said.get("each")),
            param=None if param is None else self._text(name, "param", param),
            param_template=self._text(name, "param_template", said.get("param_template")),
            retry=self._retry(name, said.get("retries"), said.get("retry")),
        )

    def _job(self, name: str, said: Any) -> str:
        if not isinstance(said, str) or not said.rpartition("/")[2] or said != said.strip():
            self._refuse(Code.FLOW_JOB, name, "job", said)
            return ""
        return said

    def _after(self, name: str, said: Any) -> dict[str, Condition]:
        if said is None:
            return {}
        if isinstance(said, str):
            return {said: Condition.SUCCESS}
        if isinstance(said, list) and all(isinstance(each, str) for each in said):
            return dict.fromkeys(said, Condition.SUCCESS)
        if isinstance(said, Mapping):
            return {
                str(before): Condition(
                    self._choice(name, "after", condition, list(Condition)) or Condition.SUCCESS
                )
                for before, condition in said.items()
            }
        self._refuse(Code.FLOW_AFTER_FORM, name, "after", said)
        return {}

    def _choice(self, name: str, option: str, said: Any, known: list[Any]) -> str | None:
        if said is None or said in known:
            return None if said is None else str(said)
        place, what = f"{FIELD}/{name}/{option}", _WORDS.get(option, FieldName("retry_backoff"))
        self._wrong.append(unknown_word(place, what, str(said), [str(word) for word in known]))
        return None

    def _text(self, name: str, option: str, said: Any) -> str:
        if said is None or isinstance(said, str):
            return said or ""
        if isinstance(said, int | float) and not isinstance(said, bool):
            return str(said)
        self._refuse(Code.FLOW_TEXT, name, option, said)
        return ""

    def _expression(self, name: str, option: str, said: Any) -> str:
        # YAML reads `if: true` as a truth value.
        return str(said).lower() if isinstance(said, bool) else self._text(name, option, said)

    def _retry(self, name: str, times: Any, said: Any) -> NodeRetry:
        place = f"{FIELD}/{name}/retry"
        if said is not None and not isinstance(said, Mapping):
            self._refuse(Code.FLOW_RETRY_FORM, name, "retry", said)
            return NO_RETRY
        said = said or {}
        for option in said:
            if option not in _RETRY_OPTIONS:
                self._wrong.append(unknown_word(place, Word.OPTION, str(option), _RETRY_OPTIONS))
        times = said.get("times") if times is None else times
        delay = self._whole(name, "delay", _seconds(said.get("delay")), _MAX_SECONDS)
        most = self._whole(name, "most", _seconds(said.get("most")), _MAX_SECONDS)
        backoff = self._choice(name, "retry", said.get("backoff"), list(Backoff))
        jitter = said.get("jitter")
        is_share = isinstance(jitter, int | float) and not isinstance(jitter, bool)
        if jitter is not None and not (is_share and 0 <= jitter <= 1):
            what_share = FieldName("retry_jitter")
            self._wrong.append(Problem(Code.SHARE, place, what=what_share, got=_quoted(jitter)))
            jitter = None
        return NodeRetry(
            times=self._whole(name, "retries", times, _MAX_RETRIES),
            delay=delay,
            backoff=backoff,
            most=most,
            jitter=jitter,
        )

    def _whole(self, name: str, option: str, said: Any, most: int) -> int | None:
        if said is None:
            return None
        if isinstance(said, int) and not isinstance(said, bool) and 0 <= said <= most:
            return said
        place = f"{FIELD}/{name}/{'retries' if option == 'retries' else 'retry'}"
        what = FieldName(option if option == "retries" else f"retry_{option}")
        facts = {"what": what, "least": 0, "most": most, "got": _quoted(said)}
        self._wrong.append(Problem(Code.INTEGER, place, **facts))
        return None

    def _refuse(self, code: Code, name: str, option: str, said: Any) -> None:
        place = "/".join(part for part in (FIELD, name, option) if part)
        got = _quoted(said) if said is not None else "nothing"
        self._wrong.append(Problem(code, place, node=name[:100], option=option, got=got))

    def _check_edges(self, nodes: Mapping[str, Node]) -> None:
        for node in nodes.values():
            for before in node.after:
                if before not in nodes:
                    place = f"{FIELD}/{node.name}/after"
                    facts = {"node": node.name, "got": before[:100]}
                    self._wrong.append(Problem(Code.FLOW_AFTER_UNKNOWN, place, **facts))


def _seconds(said: Any) -> Any:
    """Return a duration in whole seconds; anything else is returned unchanged, to be refused."""
    seconds = whole_seconds(said) if isinstance(said, str) else None
    return said if seconds is None else seconds


def _expression_problems(graph: Graph) -> Iterator[Problem]:
    """Yield what is wrong with the expressions of a graph: their syntax, and what they name."""
    over = certainly_over(graph)
    for node in graph.nodes.values():
        for option, source in (("if", node.condition), ("each", node.each)):
            if source:
                yield from _problems_of(node, option, source, over[node.name])
        if node.param_template:
            own = ELEMENT_NAMES if node.each else ()
            known = (*own, *over[node.name])
            yield from _problems_of(node, "param_template", node.param_template, known)


def _problems_of(node: Node, option: str, source: str, known: tuple[str, ...]) -> Iterator[Problem]:
    place, facts = f"{FIELD}/{node.name}/{option}", {"node": node.name, "option": option}
    try:
        if option == "param_template":
            names = read_template(source).names
        else:
            read_expression(source)
            inner = source.strip()
            names = read_template(inner if inner.startswith("{{") else f"{{{{{inner}}}}}").names
    except Fault as fault:
        yield Problem(Code.FLOW_EXPRESSION, place, **facts, why=str(fault))
        return
    allowed = {*RUN_NAMES, *known}
    for name in sorted(names - allowed):
        listed = ", ".join([*known, *RUN_NAMES][:30])
        yield Problem(Code.FLOW_NAME_UNKNOWN, place, **facts, got=name, known=listed)


def _quoted(got: Any) -> str:
    return cut_message(repr(got))[:60]
