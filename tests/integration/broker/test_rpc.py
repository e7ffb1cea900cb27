"""Questions and answers, on both transports."""

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from tests.support.eventually import eventually
from warren.broker import topology
from warren.broker.messages import Beat, BeatAnswer, Boot, IdleBeat, IdleBeatAnswer, Message
from warren.broker.rpc import AddressedQuestion, Requester
from warren.broker.signing import ClusterKeys, Direction, Sealer
from warren.broker.transport import Transport

SECRET = "s" * 32


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def sealer() -> Sealer:
    return Sealer(ClusterKeys(SECRET), "c1", now_ms)


Answering = Callable[[Beat | IdleBeat], Message | None]


class Responder:
    """Answers what is asked of one boot, as an executor does; `answer` may lie."""

    def __init__(
        self,
        transport: Transport,
        address: str,
        answer: Answering,
        *,
        boot_id: str = "b1",
        sign_as: str | None = None,
    ) -> None:
        queue = topology.command_queue("app1", address, boot_id)
        transport.admin("a").declare_queues([queue])
        self.asked: list[Message] = []
        self._address = address
        self._sign_as = sign_as or address
        self._answer = answer
        self._consumer = transport.consumer("responder", [queue.name], prefetch=100)
        self._publisher = transport.publisher("responder")
        eventually(lambda: self._consumer.is_ready and self._publisher.is_ready)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            for delivery in self._consumer.take(10, 0.02):
                question = sealer().open(
                    delivery,
                    expect=Beat | IdleBeat,
                    direction=Direction.TO_EXECUTOR,
                    address=self._address,
                )
                self.asked.append(question)
                self._consumer.ack([delivery])
                answer = self._answer(question)
                if answer is not None:
                    self.reply(question.reply_to, answer)

    def reply(self, reply_to: str, answer: Message) -> None:
        """Send an answer, to whoever listens there."""
        outgoing = sealer().seal(
            answer,
            exchange=topology.REPLY_EXCHANGE,
            routing_key=reply_to,
            app="app1",
            address=self._sign_as,
            direction=Direction.FROM_EXECUTOR,
            valid_seconds=10,
            durable=False,
        )
        self._publisher.publish([outgoing])


def beat(address: str, boot_id: str = "b1") -> AddressedQuestion:
    return AddressedQuestion(
        Boot("app1", address, boot_id), lambda q, to: Beat(question_id=q, reply_to=to)
    )


class BootId(str):
    """The boot of an executor, which only questions to it remember."""

    __slots__ = ("__weakref__",)


def is_forgotten(boot: weakref.ref[BootId]) -> bool:
    gc.collect()
    return boot() is None


def truthful(address: str, boot_id: str = "b1") -> Answering:
    def answer(question: Beat | IdleBeat) -> Message:
        return BeatAnswer(question_id=question.question_id, address=address, boot_id=boot_id)

    return answer


@pytest.fixture
def requester(transport: Transport) -> Iterator[Requester]:
    publisher = transport.publisher("p")
    answers = transport.consumer("answers", [topology.answer_queue("n1")], prefetch=500)
    eventually(lambda: publisher.is_ready and answers.is_ready)
    requester = Requester(publisher, answers, sealer(), "n1")
    yield requester
    requester.close()


@pytest.fixture
def start(transport: Transport) -> Iterator[Callable[..., Responder]]:
    started: list[Responder] = []

    def make(address: str, answer: Answering | None = None, **options: str) -> Responder:
        chosen = answer or truthful(address, options.get("boot_id", "b1"))
        started.append(Responder(transport, address, chosen, **options))
        return started[-1]

    yield make
    for responder in started:
        responder.close()


def test_answers_come_in_the_order_of_the_questions(
    requester: Requester, start: Callable[..., Responder]
) -> None:
    for address in ("h1", "h2", "h3"):
        start(address)

    answers = requester.ask([beat("h3"), beat("h1"), beat("h2")], 10)

    assert [answer and answer.address for answer in answers] == ["h3", "h1", "h2"]


def test_no_question_has_no_answer(requester: Requester) -> None:
    assert requester.ask([], 10) == []


def test_question_says_what_was_built(
    requester: Requester, start: Callable[..., Responder]
) -> None:
    def idle(question: Beat | IdleBeat) -> Message:
        return IdleBeatAnswer(
            question_id=question.question_id, address="h1", boot_id="b1", busy_jobs={4: "runs"}
        )

    responder = start("h1", idle)
    question = AddressedQuestion(
        Boot("app1", "h1", "b1"),
        lambda q, to: IdleBeat(question_id=q, reply_to=to, job_ids=(4, 5)),
    )

    (answer,) = requester.ask([question], 10)

    assert isinstance(answer, IdleBeatAnswer)
    assert answer.busy_jobs == {4: "runs"}
    assert responder.asked[0].job_ids == (4, 5)


def test_question_to_nobody_is_given_up_at_once(requester: Requester) -> None:
    began = time.monotonic()

    answers = requester.ask([beat("nobody"), beat("h1", "no-such-boot")], 60)

    assert answers == [None, None]
    assert time.monotonic() - began < 50


def test_silent_executor_holds_back_no_answer_of_another(
    requester: Requester, start: Callable[..., Responder]
) -> None:
    start("h1")
    start("silent", lambda _question: None)

    answers = requester.ask([beat("silent"), beat("h1"), beat("nobody")], 5)

    assert [answer and answer.address for answer in answers] == [None, "h1", None]


@pytest.mark.parametrize(
    ("address", "boot_id", "sign_as"),
    [("h1", "b2", "h1"), ("h2", "b1", "h2"), ("h1", "b1", "h2"), ("h2", "b1", "h1")],
)
def test_answer_of_anyone_else_does_not_count(
    requester: Requester,
    start: Callable[..., Responder],
    address: str,
    boot_id: str,
    sign_as: str,
) -> None:
    start("h1", truthful(address, boot_id), sign_as=sign_as)

    assert requester.ask([beat("h1")], 0.3) == [None]


def test_answer_to_another_question_does_not_count(
    requester: Requester, start: Callable[..., Responder]
) -> None:
    def confused(_question: Beat | IdleBeat) -> Message:
        return BeatAnswer(question_id="guessed", address="h1", boot_id="b1")

    start("h1", confused)

    assert requester.ask([beat("h1")], 0.3) == [None]


def test_bad_message_among_the_answers_stops_nothing(
    requester: Requester, start: Callable[..., Responder], transport: Transport
) -> None:
    start("h1")
    stranger = Sealer(ClusterKeys("t" * 32), "c1", now_ms).seal(
        BeatAnswer(question_id="q", address="h1", boot_id="b1"),
        exchange=topology.REPLY_EXCHANGE,
        routing_key=topology.answer_key("n1"),
        app="app1",
        address="h1",
        direction=Direction.FROM_EXECUTOR,
        valid_seconds=10,
    )
    publisher = transport.publisher("stranger")
    eventually(lambda: publisher.is_ready)
    publisher.publish([stranger]).wait(30)

    (answer,) = requester.ask([beat("h1")], 10)

    assert answer is not None


def test_many_threads_ask_at_once(requester: Requester, start: Callable[..., Responder]) -> None:
    start("h1")
    start("h2")
    answered: list[str | None] = []

    def ask() -> None:
        for _ in range(5):
            answers = requester.ask([beat("h1"), beat("h2")], 10)
            answered.extend(answer and answer.address for answer in answers)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answered == ["h1", "h2"] * 30


def test_one_executor_is_asked_many_things_at_once(
    requester: Requester, start: Callable[..., Responder]
) -> None:
    start("h1")

    answers = requester.ask([beat("h1")] * 50, 10)

    assert len({answer.question_id for answer in answers if answer is not None}) == 50


def test_closed_requester_answers_none(requester: Requester) -> None:
    requester.close()

    assert requester.ask([beat("h1")], 0.1) == [None]


def test_bad_name_is_said_and_leaves_nothing_open(requester: Requester) -> None:
    boot = BootId("b1")
    open_question = weakref.ref(boot)

    with pytest.raises(ValueError, match="address"):
        requester.ask([beat("h1", boot), beat("../x")], 1)

    del boot
    assert is_forgotten(open_question)


# -- asked without waiting ------------------------------------------------------------------------


def test_posted_questions_are_answered_one_by_one_by_position(
    requester: Requester, start: Callable[..., Responder]
) -> None:
    for address in ("h1", "h2"):
        start(address)
    start("silent", lambda _question: None)
    heard: list[tuple[int, str]] = []

    requester.post(
        [beat("silent"), beat("h2"), beat("nobody"), beat("h1")],
        10,
        lambda position, answer: heard.append((position, answer.address)),
    )

    eventually(lambda: len(heard) == 2)
    assert sorted(heard) == [(1, "h2"), (3, "h1")]


def test_posted_question_is_answered_once(
    requester: Requester, start: Callable[..., Responder]
) -> None:
    responder = start("h1")
    heard: list[int] = []
    requester.post([beat("h1")], 10, lambda position, _answer: heard.append(position))
    eventually(lambda: heard)

    [question] = responder.asked
    responder.reply(question.reply_to, truthful("h1")(question))
    assert requester.ask([beat("h1")], 10) != [None]

    assert heard == [0]


def test_posted_question_is_forgotten_when_its_time_is_up(requester: Requester) -> None:
    boot = BootId("b1")
    open_question = weakref.ref(boot)
    requester.post([beat("nobody", boot)], 0.05, lambda *_: None)
    del boot
    assert not is_forgotten(open_question)

    eventually(lambda: is_forgotten(open_question))


def test_who_fails_to_hear_an_answer_costs_nobody_else_theirs(
    requester: Requester, start: Callable[..., Responder]
) -> None:
    start("h1")
    boot = BootId("b1")
    open_question = weakref.ref(boot)

    def fail(_position: int, _answer: object) -> None:
        raise RuntimeError("no ears")

    requester.post([beat("h1", boot)], 3_600, fail)
    del boot

    assert requester.ask([beat("h1")], 10) != [None]
    eventually(lambda: is_forgotten(open_question))


def test_who_is_told_an_answer_may_ask_on(
    requester: Requester, start: Callable[..., Responder]
) -> None:
    start("h1")
    start("h2")
    heard: list[str] = []

    def hear(_position: int, answer: object) -> None:
        heard.append(answer.address)  # type: ignore[attr-defined]
        if len(heard) == 1:
            requester.post([beat("h2")], 10, hear)

    requester.post([beat("h1")], 10, hear)

    eventually(lambda: heard == ["h1", "h2"])
