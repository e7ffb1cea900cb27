"""What executors are asked before a route chooses, what an answer is good for, and who waits."""

import weakref
from collections.abc import Callable, Sequence
from random import Random

import pytest

from warren.broker.messages import Answer, Beat, BeatAnswer, IdleBeat, IdleBeatAnswer
from warren.broker.rabbitmq.transport import AmqpBatch
from warren.broker.rpc import AddressedQuestion
from warren.broker.transport import Batch, Confirm
from warren.scheduler.routing.probes import Candidates, Probes, Undecided
from warren.scheduler.routing.routes import (
    BUILT_IN,
    Choice,
    Probe,
    ProbeAnswer,
    Route,
    Router,
    RouteRequest,
    choose,
)

BOOTS = {"a": "boot-a", "b": "boot-b", "c": "boot-c"}
AMONG = Candidates("demo", BOOTS)
FAILOVER, BUSYOVER = BUILT_IN[Route.FAILOVER], BUILT_IN[Route.BUSYOVER]
ALL = Router(lambda request, _: Choice(request.candidates[-1], "last"), probe=Probe.BEAT)


class Instant(float):
    """A reading of the clock of which a test can tell whether it is kept."""


class WatchedAnswer(BeatAnswer, weakref=True):
    """An answer of which a test can tell whether it is kept."""


class Desk:
    """Stands where questions go out and answers come in; time passes when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[tuple[str, Beat | IdleBeat]] = []
        self.wakes = 0
        self.answers: dict[str, weakref.ref[WatchedAnswer]] = {}
        self._tell: list[Callable[[Answer], None]] = []
        #: What the broker does with questions, by address; else they are confirmed.
        self.fates: dict[str, Confirm] = {}
        #: The addresses without a queue, and how many questions were not confirmed.
        self.returned: list[str] = []
        self.unconfirmed = 0
        self.probes = Probes(
            requester=self,  # type: ignore[arg-type]
            answer_seconds=0.5,
            on_let_go=self._wake,
            on_returned=lambda _app, address: self.returned.append(address),
            on_unconfirmed=self._note_unconfirmed,
            clock=lambda: self.now,
        )

    def post(
        self,
        questions: Sequence[AddressedQuestion],
        timeout_seconds: float,
        on_answer: Callable[[int, Answer], None],
    ) -> Batch:
        assert timeout_seconds == 0.5
        for position, ((app, address, boot_id), build) in enumerate(questions):
            assert (app, boot_id) == ("demo", f"boot-{address}")
            question = build(f"q{len(self.asked)}", "answer.x")
            assert isinstance(question, Beat | IdleBeat)
            self.asked.append((address, question))
            self._tell.append(lambda answer, position=position: on_answer(position, answer))
        published = AmqpBatch(len(questions))
        for position, (boot, _) in enumerate(questions):
            fate = self.fates.get(boot.address, Confirm.CONFIRMED)
            if fate is not Confirm.UNKNOWN:
                published.settle(position, fate)
        return published

    def answer(self, number: int, **values: object) -> None:
        """Answer the question of this number."""
        address, question = self.asked[number]
        who = {"question_id": question.question_id, "address": address, "boot_id": BOOTS[address]}
        if isinstance(question, Beat):
            answer = WatchedAnswer(**who)
            self.answers[address] = weakref.ref(answer)
            self._tell[number](answer)
        else:
            self._tell[number](IdleBeatAnswer(**({"free_slots": 4} | who | values)))  # type: ignore[arg-type]

    def want(
        self,
        router: Router,
        *job_ids: int,
        addresses: tuple[str, ...] = ("a", "b", "c"),
        due_at: int = 0,
    ) -> None:
        self.probes.ask(
            "demo",
            BOOTS,
            [
                Undecided(job, router, self.request(router, job, addresses), due_at or self.now_ms)
                for job in job_ids
            ],
            self.now_ms,
        )

    def request(
        self,
        router: Router,
        job_id: int = 1,
        addresses: tuple[str, ...] = ("a", "b", "c"),
        among: Candidates = AMONG,
        due_at: int = 0,
    ) -> RouteRequest:
        request = RouteRequest(job_id=job_id, addresses=addresses)
        return self.probes.answered(router, request, among, due_at)

    def known(self, router: Router, job_id: int = 1, due_at: int = 0) -> dict[str, ProbeAnswer]:
        return dict(self.request(router, job_id, due_at=due_at).probes or {})

    def sent(self, address: str, job_id: int, run_id: int = 1) -> None:
        """Note a run that goes to an executor."""
        self.probes.note_sent([(AMONG.boot(address), job_id, run_id)])

    @property
    def now_ms(self) -> int:
        return round(self.now * 1000)

    def _wake(self) -> None:
        self.wakes += 1

    def _note_unconfirmed(self) -> None:
        self.unconfirmed += 1


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_nothing_is_known_before_somebody_was_asked(desk: Desk) -> None:
    request = desk.request(FAILOVER)

    assert request.probes == {}
    assert not FAILOVER.is_decided(request)
    assert desk.asked == []


def test_one_message_for_each_executor_carries_all_jobs_of_a_batch(desk: Desk) -> None:
    desk.want(BUSYOVER, 1, 2, 3)

    assert [address for address, _ in desk.asked] == ["a", "b", "c"]
    assert all(question.job_ids == (1, 2, 3) for _, question in desk.asked)  # type: ignore[union-attr]
    assert desk.probes.held_back() == {1, 2, 3}


def test_a_question_that_is_open_is_not_asked_again(desk: Desk) -> None:
    desk.want(FAILOVER, 1)
    desk.want(FAILOVER, 2)
    desk.want(BUSYOVER, 3)
    desk.want(BUSYOVER, 3, 4)

    kinds = [(address, type(question).__name__) for address, question in desk.asked]
    assert kinds[:6] == [(a, "Beat") for a in "abc"] + [(a, "IdleBeat") for a in "abc"]
    assert [question.job_ids for _, question in desk.asked[6:]] == [(4,)] * 3  # type: ignore[union-attr]


def test_the_first_good_answer_in_order_is_enough(desk: Desk) -> None:
    desk.want(FAILOVER, 1)

    desk.answer(2)
    assert desk.probes.held_back() == {1}
    desk.answer(0)

    assert desk.probes.held_back() == set()
    assert desk.wakes == 1
    assert choose(Route.FAILOVER, desk.request(FAILOVER), Random(1)).address == "a"


def test_silence_for_lack_of_a_queue_or_of_a_confirm_is_told(desk: Desk) -> None:
    desk.fates = {"b": Confirm.RETURNED, "c": Confirm.UNKNOWN}
    desk.want(ALL, 1)
    desk.answer(0)
    assert (desk.returned, desk.unconfirmed) == ([], 0)

    desk.now += 0.6
    desk.probes.held_back()

    assert (desk.returned, desk.unconfirmed) == (["b"], 1)


def test_a_route_that_looks_at_all_answers_waits_for_all(desk: Desk) -> None:
    desk.want(ALL, 1)

    desk.answer(0)
    desk.answer(1)
    assert desk.probes.held_back() == {1}
    desk.answer(2)

    assert desk.probes.held_back() == set()
    assert list(desk.known(ALL)) == ["a", "b", "c"]


def test_a_slow_executor_holds_back_only_jobs_whose_choice_depends_on_it(desk: Desk) -> None:
    desk.want(BUSYOVER, 1)
    desk.want(BUSYOVER, 2, addresses=("c",))

    desk.answer(2)

    assert desk.probes.held_back() == {1, 2}
    desk.answer(3)  # c, about job 2
    assert desk.probes.held_back() == {1}


def test_silence_past_the_deadline_lets_the_job_go_to_the_next(desk: Desk) -> None:
    desk.want(FAILOVER, 1)
    desk.answer(1)
    assert desk.probes.seconds_left() == 0.5

    desk.now += 0.5

    assert desk.probes.held_back() == set()
    choice = choose(Route.FAILOVER, desk.request(FAILOVER), Random(1))
    assert choice.address == "b"
    assert str(choice.words) == "failover: a did not answer within 0.5 s; b answered in 1 ms"


def test_silence_of_all_is_no_word_of_any(desk: Desk) -> None:
    desk.want(FAILOVER, 1)
    desk.now += 0.5

    answers = desk.known(FAILOVER).values()

    assert len(answers) == 3
    assert not any(answer.ok or answer.heard for answer in answers)


def test_a_silent_executor_is_asked_on_and_holds_nobody_back_meanwhile(desk: Desk) -> None:
    desk.want(FAILOVER, 1, addresses=("a",))
    desk.now += 0.5
    desk.known(FAILOVER)

    desk.now += 2
    assert not desk.request(FAILOVER, addresses=("a",)).probes["a"].ok  # type: ignore[index]
    desk.probes.ask("demo", BOOTS, [], desk.now_ms)

    assert [address for address, _ in desk.asked] == ["a", "a"]
    assert desk.probes.held_back() == set()
    desk.answer(1)
    assert desk.request(FAILOVER, addresses=("a",)).probes["a"].ok  # type: ignore[index]


def test_silence_is_forgotten_after_a_while(desk: Desk) -> None:
    desk.want(FAILOVER, 1)
    desk.now += 0.5
    desk.known(FAILOVER)

    desk.now += 5.1

    assert desk.known(FAILOVER) == {}


def test_an_answer_is_good_for_a_second(desk: Desk) -> None:
    desk.want(FAILOVER, 1)
    desk.answer(0)

    desk.now += 1.0
    assert desk.known(FAILOVER)["a"].ok
    desk.now += 0.1
    assert desk.known(FAILOVER) == {}


def test_an_answer_to_a_beat_is_for_every_job(desk: Desk) -> None:
    desk.want(FAILOVER, 1)
    desk.answer(0)

    assert desk.known(FAILOVER, job_id=99)["a"].ok


def test_an_answer_to_an_idle_beat_is_for_the_jobs_it_was_about(desk: Desk) -> None:
    desk.want(BUSYOVER, 1)
    desk.answer(0)

    assert desk.known(BUSYOVER, 1)["a"].ok
    assert desk.known(BUSYOVER, 2) == {}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"busy_jobs": {1: "a run of the job is running or waiting here"}},
            "is busy: a run of the job is running or waiting here",
        ),
        ({"busy_executor": "every slot is taken", "free_slots": 0}, "is busy: every slot is taken"),
        ({"busy_executor": "CPU at 99 %, limit 90 %"}, "is busy: CPU at 99 %, limit 90 %"),
        ({"free_slots": 0}, "is busy: its free slots were taken a moment ago"),
    ],
)
def test_a_busy_executor_is_passed_over_for_an_idle_one_in_its_own_words(
    desk: Desk, values: dict[str, object], words: str
) -> None:
    desk.want(BUSYOVER, 1)
    desk.answer(0, **values)
    desk.answer(1)

    choice = choose(Route.BUSYOVER, desk.request(BUSYOVER), Random(1))

    assert choice.address == "b"
    assert str(choice.words) == f"busyover: a {words}; b is idle, free slots: 4"


def test_an_executor_busy_with_one_job_is_idle_for_another(desk: Desk) -> None:
    desk.want(BUSYOVER, 1, 2)
    desk.answer(0, busy_jobs={1: "it runs"})

    assert not desk.known(BUSYOVER, 1)["a"].ok
    assert desk.known(BUSYOVER, 2)["a"].ok


def test_slots_that_were_taken_since_count_and_keep_nobody_away(desk: Desk) -> None:
    desk.want(BUSYOVER, 1, 2)
    desk.answer(0, free_slots=2)

    desk.sent("a", 1)
    assert str(desk.known(BUSYOVER, 2)["a"].words) == "a is idle, free slots: 1"
    desk.sent("a", 99)

    answer = desk.known(BUSYOVER, 2)["a"]
    assert str(answer.words) == "a is busy: its free slots were taken a moment ago"
    assert answer.rank == 0


def test_a_job_that_was_sent_there_is_asked_about_again(desk: Desk) -> None:
    desk.want(BUSYOVER, 1, addresses=("a",))
    desk.answer(0)
    desk.sent("a", 1, run_id=77)

    assert desk.known(BUSYOVER, 1) == {}
    desk.now += 0.001
    desk.want(BUSYOVER, 1, addresses=("a",))

    address, question = desk.asked[1]
    assert address == "a"
    assert isinstance(question, IdleBeat)
    assert question.underway == {1: (77,)}
    desk.answer(1)
    assert str(desk.known(BUSYOVER, 1)["a"].words) == "a is idle, free slots: 3"


def test_an_answer_asked_for_before_the_job_was_sent_there_says_nothing_of_it(desk: Desk) -> None:
    desk.want(BUSYOVER, 1, addresses=("a",))
    desk.now += 0.001
    desk.want(BUSYOVER, 1, addresses=("a",), due_at=desk.now_ms)
    desk.answer(0)
    desk.now += 0.001
    desk.sent("a", 1)

    desk.answer(1)

    assert desk.known(BUSYOVER, 1) == {}


def test_nothing_is_on_its_way_to_an_executor_whose_queue_is_missing(desk: Desk) -> None:
    desk.want(BUSYOVER, 1, addresses=("a",))
    desk.answer(0)
    desk.sent("a", 1)

    desk.probes.note_missing("demo", "a")
    desk.now += 0.001
    desk.want(BUSYOVER, 1, addresses=("a",))

    assert desk.asked[1][1].underway == {}  # type: ignore[union-attr]


def test_what_was_sent_long_ago_is_not_on_its_way(desk: Desk) -> None:
    desk.want(BUSYOVER, 1, addresses=("a",))
    desk.answer(0)
    desk.sent("a", 1)
    desk.now += 10.1

    desk.want(BUSYOVER, 1, addresses=("a",))

    assert desk.asked[1][1].underway == {}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "values", [{"busy_jobs": {1: "it runs"}}, {"busy_executor": "every slot is taken"}]
)
def test_an_answer_that_keeps_a_run_away_is_no_word_of_a_run_that_is_due_later(
    desk: Desk, values: dict[str, object]
) -> None:
    desk.want(BUSYOVER, 1, addresses=("a",))
    due_at = desk.now_ms
    desk.answer(0, **values)
    desk.now += 0.3

    assert not desk.known(BUSYOVER, 1, due_at)["a"].ok
    assert desk.known(BUSYOVER, 1, due_at + 1) == {}
    desk.want(BUSYOVER, 1, addresses=("a",), due_at=due_at + 1)
    desk.answer(1)
    assert desk.known(BUSYOVER, 1, due_at + 1)["a"].ok


def test_the_best_is_taken_when_none_is_idle_unless_the_job_runs_there(desk: Desk) -> None:
    desk.want(BUSYOVER, 1)
    desk.answer(0, busy_jobs={1: "it runs"})
    desk.answer(1, busy_executor="every slot is taken", free_slots=0, waiting=3)
    desk.answer(2, busy_executor="CPU at 99 %, limit 90 %")

    choice = choose(Route.BUSYOVER, desk.request(BUSYOVER), Random(1))

    assert choice.address == "c"
    assert str(choice.words) == (
        "busyover: a is busy: it runs; b is busy: every slot is taken; "
        "c is busy: CPU at 99 %, limit 90 %; none is idle, the best is c"
    )


def test_one_that_starts_nothing_is_taken_after_all_others(desk: Desk) -> None:
    desk.want(BUSYOVER, 1, addresses=("a", "b"))
    desk.answer(0, busy_executor="it is out of contact", may_start=False)
    desk.answer(1, busy_executor="every slot is taken", free_slots=0, waiting=500)

    request = desk.request(BUSYOVER, addresses=("a", "b"))

    assert choose(Route.BUSYOVER, request, Random(1)).address == "b"


def test_a_job_that_runs_on_every_executor_goes_to_none(desk: Desk) -> None:
    desk.want(BUSYOVER, 1)
    for number in range(3):
        desk.answer(number, busy_jobs={1: "it runs"}, busy_executor="every slot is taken")

    choice = choose(Route.BUSYOVER, desk.request(BUSYOVER), Random(1))

    assert choice.address is None
    assert str(choice.words).endswith("c is busy: it runs; none left")


def test_what_a_claim_has_given_already_counts(desk: Desk) -> None:
    desk.want(BUSYOVER, 1, 2)
    desk.answer(0, free_slots=1)

    taken = Candidates("demo", BOOTS, {"a": 1}, {("a", 1)})
    full = desk.request(BUSYOVER, 2, among=taken).probes or {}
    same = desk.request(BUSYOVER, 1, among=taken).probes

    assert str(full["a"].words) == "a is busy: its free slots were taken a moment ago"
    assert same == {}  # it is asked about again


def test_many_runs_sent_elsewhere_are_not_kept(desk: Desk) -> None:
    desk.want(BUSYOVER, 1)
    desk.answer(0)

    readings = []
    for run_id in range(2_000):
        desk.now = Instant(desk.now + 0.05)
        readings.append(weakref.ref(desk.now))
        desk.sent("a", 7, run_id)

    assert sum(reading() is not None for reading in readings) <= 202
    desk.want(BUSYOVER, 7, addresses=("a",))
    question = desk.asked[-1][1]
    assert isinstance(question, IdleBeat)
    assert (question.job_ids, question.underway) == ((7,), {})


def test_a_new_boot_has_to_answer_for_itself(desk: Desk) -> None:
    desk.want(FAILOVER, 1)
    desk.answer(0)
    renewed = Candidates("demo", BOOTS | {"a": "boot-new"})

    assert desk.request(FAILOVER, among=renewed).probes == {}


def test_a_late_answer_counts_from_when_it_came(desk: Desk) -> None:
    desk.want(FAILOVER, 1)
    desk.now += 0.6
    assert not desk.known(FAILOVER)["a"].ok

    desk.answer(0)

    assert str(desk.known(FAILOVER)["a"].words) == "a answered in 600 ms"


def test_executors_nobody_asks_about_are_forgotten(desk: Desk) -> None:
    desk.want(FAILOVER, 1)
    for number in range(3):
        desk.answer(number)
    desk.now += 61

    desk.want(FAILOVER, 1, addresses=("b",))

    assert {address for address, answer in desk.answers.items() if answer()} == {"b"}
