"""Reads the `flow` of a job: JSON values, from whatever form, become a Graph or refusals.

Each refusal names the node, and its field says where: `flow/load/after`.
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from warren.broker.durations import seconds_of
from warren.broker.messages.values import cut_message
from warren.scheduler.expressions.functions import FUNCTIONS, Fault
from warren.scheduler.expressions.language import read_expression, read_template
from warren.scheduler.flows.graph import (
    MAX_NODES,
    NO_RETRY,
    Condition,
    Graph,
    Join,
    Node,
    NodeRetry,
    certainly_over,
    circle_in,
)
from warren.scheduler.problems import Code, FieldName, Problem, Refused, Word, unknown_word
from warren.sql.models.jobs import Backoff

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
        Refused: somebody has changed it in the database.

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
            raise _refused(self._wrong)
        if circle := circle_in(nodes):
            raise Problem(Code.FLOW_CIRCLE, f"{FIELD}/{circle[0]}/after", path=" -> ".join(circle))
        graph = Graph(nodes)
        if (size := len(graph.to_json().encode(errors="replace"))) > MAX_BYTES:
            raise Problem(Code.FLOW_TOO_LONG, FIELD, most=MAX_BYTES, got=size)
        if wrong := list(_expression_problems(graph)):
            raise _refused(wrong)
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
    """Return a duration in whole seconds; what is none stays as it is, and is refused."""
    seconds = seconds_of(said) if isinstance(said, str) else None
    return said if seconds is None or seconds % 1 else int(seconds)


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


def _refused(problems: list[Problem]) -> Refused:
    return problems[0] if len(problems) == 1 else Refused(problems)


def _quoted(got: Any) -> str:
    return cut_message(repr(got))[:60]
