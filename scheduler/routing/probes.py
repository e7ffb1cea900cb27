"""Asks executors whether they are alive, or idle, before a route chooses; never blocks.

    claim meets an undecided route -> its run stays PLANNED, its job is held back -> one question
    for each executor -> answers, or silence past the deadline -> the job is let go, and claimed

One question covers all jobs of a batch. An executor that is slow to answer holds back only the jobs
whose choice depends on it.

An answer is valid for a second. A refusal counts only for runs that were due when the executor was
asked; an acceptance of a job, until a run of that job is sent there.
"""

import math
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from warren.broker.messages import Answer, Beat, Boot, IdleBeat, IdleBeatAnswer
from warren.broker.reasons import Reason, Why, Words
from warren.broker.rpc import AddressedQuestion, Requester
from warren.broker.stored_reasons import from_json
from warren.broker.transport import Batch, Confirm
from warren.scheduler.routing.routes import Probe, ProbeAnswer, Router, RouteRequest

#: How long an answer is valid, and how long silence is: longer, so that a frozen executor does not
#: hold jobs back again and again. It is asked again meanwhile.
ANSWER_SECONDS = 1.0
SILENCE_SECONDS = 5.0
#: Runs sent this shortly before a question may not yet count in the slots of the answer.
SLOT_SECONDS = 0.1
#: How long a trigger may be in transit: until then an executor is asked whether it has arrived.
UNDERWAY_SECONDS = 10.0
#: Subtracted from the rank of an executor that starts nothing.
UNFIT_RANK = 1_000_000
#: Executors that were not needed for this long are forgotten.
FORGET_SECONDS = 60.0
#: Once this many runs sent to an executor are remembered, those that no longer count are dropped.
SENT_KEPT = 200
#: The most reasons that are read from one answer; executors give up to three.
WHYS_READ = 10

#: A sent run: its boot, its job, and its id. Every run is noted so, and a plain tuple is made fast.
Sent = tuple[tuple[str, str, str], int, int]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The executors of an app by address, and the runs that an unfinished claim sends to them.

    `taken` counts these runs by address; `given` has the address and job of each.
    """

    app: str
    boots: Mapping[str, str]
    taken: Mapping[str, int] = field(default_factory=dict)
    given: Collection[tuple[str, int]] = ()

    def boot(self, address: str) -> Boot:
        """Return the boot that holds an address."""
        return Boot(self.app, address, self.boots[address])


@dataclass(frozen=True, slots=True)
class AskedAt:
    """When a probe was sent: monotonic seconds, and the database's time."""

    at: float
    at_ms: int


@dataclass(frozen=True, slots=True)
class _Answered:
    """An answer, when it was asked for, and when it arrived; `reasons` by their texts in it."""

    asked: AskedAt
    at: float
    answer: Answer
    reasons: Mapping[str, Reason]

    @property
    def milliseconds(self) -> int:
        return max(1, round((self.at - self.asked.at) * 1000))

    def why(self, text: str) -> Words:
        return self.reasons.get(text, text)


@dataclass(slots=True)
class _BootAnswers:
    """What is known about one boot; `jobs` are the answers about each job.

    `sent` are the times at which runs were sent there, once it was asked about jobs; `underway` are
    the runs of those jobs, by job, with the times at which they were sent.
    """

    used_at: float
    heard: _Answered | None = None
    silent_at: float = -math.inf
    jobs: dict[int, _Answered] = field(default_factory=dict)
    is_counted: bool = False
    sent: list[float] = field(default_factory=list)
    underway: dict[int, dict[int, float]] = field(default_factory=dict)


class ProbeAnswers:
    """The answers of executors; `answer_seconds` is the time limit for one.

    `now` is monotonic seconds everywhere. `stale` are boots whose silence was used, and is old
    enough to ask again.
    """

    def __init__(self, answer_seconds: float) -> None:
        self.stale: set[Boot] = set()
        self._answer_seconds = answer_seconds
        self._known: dict[tuple[str, str, str], _BootAnswers] = {}
        self._forgot_at = -math.inf

    def expect(
        self, boot: Boot, probe: Probe, job_ids: Iterable[int], now: float
    ) -> dict[int, tuple[int, ...]]:
        """Record that a boot is being asked; return which runs of these jobs may be in transit."""
        known = self._of(boot, now)
        known.is_counted = known.is_counted or probe is Probe.IDLE_BEAT
        coming = {job_id: _coming(known, job_id, now) for job_id in job_ids}
        return {job_id: run_ids for job_id, run_ids in coming.items() if run_ids}

    def expect_nothing(self, app: str, address: str) -> None:
        """Record that nothing is in transit to an address: everything sent there was returned."""
        for boot, known in self._known.items():
            if boot[:2] == (app, address):
                known.underway.clear()

    def hear(
        self, boot: Boot, answer: Answer, job_ids: Iterable[int], asked: AskedAt, now: float
    ) -> None:
        """Record an answer to a question about these jobs, if any."""
        known = self._of(boot, now)
        known.heard = _Answered(asked, now, answer, _reasons(answer))
        if isinstance(answer, IdleBeatAnswer):
            news = [job_id for job_id in job_ids if self.is_news(boot, job_id, asked)]
            known.jobs.update(dict.fromkeys(news, known.heard))

    def is_news(self, boot: Boot, job_id: int, asked: AskedAt) -> bool:
        """Whether a boot got no run of a job since this question, and answered no later one."""
        known = self._of(boot, asked.at)
        sent_at = max(known.underway.get(job_id, {}).values(), default=-math.inf)
        answered = known.jobs.get(job_id)
        return sent_at <= asked.at and (answered is None or answered.asked.at <= asked.at)

    def miss(self, boot: Boot, now: float) -> None:
        """Record that a boot did not answer in time."""
        self._of(boot, now).silent_at = now

    def count(self, sent: Iterable[Sent], now: float) -> None:
        """Record runs sent to executors; only those to boots that were asked matter."""
        if not self._known:
            return
        for boot, job_id, run_id in sent:
            known = self._known.get(boot)
            if known is not None and known.is_counted:
                _count(known, now)
                if known.jobs.pop(job_id, None) is not None:
                    known.underway.setdefault(job_id, {})[run_id] = now

    def learn(self, sent: Iterable[Sent], now: float) -> None:
        """Record runs in transit that any scheduler sent; known ones stay as they are."""
        for boot, job_id, run_id in sent:
            known = self._of(boot, now)
            if run_id not in known.underway.get(job_id, {}):
                known.jobs.pop(job_id, None)  # its answer may be older than the run
                known.underway.setdefault(job_id, {})[run_id] = now

    def complete(
        self, router: Router, request: RouteRequest, among: Candidates, now: float, due_at: int
    ) -> RouteRequest:
        """Return the request of a run due at `due_at` with the known answers its route needs."""
        probe, job_id = router.probe or Probe.BEAT, request.job_id
        answers: dict[str, ProbeAnswer] = {}
        for address in request.candidates if router.probe else ():
            boot = among.boot(address)
            answer = self.answer(probe, boot, job_id, now, due_at=due_at, among=among)
            if answer is None:
                break
            answers[address] = answer
            if answer.ok and router.takes_first_ok:
                break
        return request.with_probes(answers)

    def answer(
        self,
        probe: Probe,
        boot: Boot,
        job_id: int,
        now: float,
        *,
        due_at: int,
        among: Candidates | None = None,
    ) -> ProbeAnswer | None:
        """Interpret a boot's answer, or silence, for a run; None = it must be asked."""
        known = self._of(boot, now)
        answered = known.heard if probe is Probe.BEAT else known.jobs.get(job_id)
        if answered is None or now - answered.at > ANSWER_SECONDS:
            known.jobs.pop(job_id, None)
            return self._silence(boot, known, now)
        if probe is Probe.IDLE_BEAT and isinstance(answered.answer, IdleBeatAnswer):
            if among is not None and (boot.address, job_id) in among.given:
                return None
            more = among.taken.get(boot.address, 0) if among is not None else 0
            answer = _idle(known, answered, answered.answer, job_id, more)
            return answer if answer.ok or answered.asked.at_ms >= due_at else None
        return ProbeAnswer(
            ok=True, words=Why.ANSWERED(address=boot.address, n=answered.milliseconds)
        )

    def forget_old(self, now: float) -> None:
        """Drop, from time to time, boots that were not needed for long."""
        if now - self._forgot_at > FORGET_SECONDS:
            self._forgot_at = now
            used = {
                boot: it for boot, it in self._known.items() if now - it.used_at < FORGET_SECONDS
            }
            self._known = used

    def _of(self, boot: tuple[str, str, str], now: float) -> _BootAnswers:
        known = self._known.get(boot)
        if known is None:
            known = self._known[boot] = _BootAnswers(now)
        known.used_at = now
        return known

    def _silence(self, boot: Boot, known: _BootAnswers, now: float) -> ProbeAnswer | None:
        heard_at = known.heard.at if known.heard else -math.inf
        silent_seconds = now - known.silent_at
        if known.silent_at < heard_at or silent_seconds > SILENCE_SECONDS:
            return None
        if silent_seconds > ANSWER_SECONDS:
            self.stale.add(boot)
        words = Why.SILENT_FOR(address=boot.address, seconds=f"{self._answer_seconds:g}")
        return ProbeAnswer(ok=False, words=words, heard=False)


def _idle(
    known: _BootAnswers, answered: _Answered, answer: IdleBeatAnswer, job_id: int, more: int
) -> ProbeAnswer:
    """Interpret an answer to an idle beat for a job, given `more` runs sent there."""
    if job_id in answer.busy_jobs:
        return _busy(answer, answered.why(answer.busy_jobs[job_id]))
    since = len(known.sent) - bisect_left(known.sent, answered.asked.at - SLOT_SECONDS)
    left = answer.free_slots - since - more
    rank = left - answer.waiting - (0 if answer.may_start else UNFIT_RANK)
    if answer.busy_executor:
        return _busy(answer, answered.why(answer.busy_executor), rank)
    if left <= 0:
        return _busy(answer, Why.SLOTS_JUST_TAKEN(), rank)
    return ProbeAnswer(ok=True, words=Why.IDLE(address=answer.address, n=left))


def _busy(answer: IdleBeatAnswer, why: Words, rank: int | None = None) -> ProbeAnswer:
    return ProbeAnswer(ok=False, words=Why.BUSY(address=answer.address, why=why), rank=rank)


def _reasons(answer: Answer) -> dict[str, Reason]:
    whys = answer.whys[:WHYS_READ] if isinstance(answer, IdleBeatAnswer) else ()
    return {str(reason): reason for reason in map(from_json, whys) if reason is not None}


def _coming(known: _BootAnswers, job_id: int, now: float) -> tuple[int, ...]:
    """Return the runs of a job that may be in transit, and forget those that cannot."""
    sent = known.underway.pop(job_id, {})
    coming = {run_id: at for run_id, at in sent.items() if now - at < UNDERWAY_SECONDS}
    if coming:
        known.underway[job_id] = coming
    return tuple(coming)


def _count(known: _BootAnswers, now: float) -> None:
    known.sent.append(now)
    if len(known.sent) > SENT_KEPT:
        # Runs sent before the question of the oldest valid answer no longer count.
        oldest = now - 2 * ANSWER_SECONDS - SLOT_SECONDS
        del known.sent[: bisect_left(known.sent, oldest)]


@dataclass(frozen=True, slots=True)
class Undecided:
    """A run that cannot be routed before executors have answered, with its due time in epoch ms."""

    job_id: int
    router: Router
    request: RouteRequest
    due_at: int


@dataclass(slots=True)
class _OpenProbe:
    """An unanswered question; `underway` are the runs sent there, by job.

    It is the message at `position` of what was published.
    """

    boot: Boot
    probe: Probe
    job_ids: tuple[int, ...]
    underway: Mapping[int, tuple[int, ...]]
    asked: AskedAt
    give_up_at: float
    published: Batch | None = None
    position: int = 0


@dataclass(frozen=True, slots=True)
class _HeldJob:
    """A job held back until its route can choose or the last answer is overdue."""

    undecided: Undecided
    among: Candidates
    until: float


class Probes:
    """Recent answers of executors; thread-safe.

    Args:
        requester: sends the questions; it is never waited for.
        answer_seconds: how long an executor has to answer.
        on_let_go: called, in any thread, when jobs are no longer held back.
        on_returned: called with app and address if an executor did not answer because its queue is
            missing; it must not block, nor call this object.
        on_unconfirmed: the same if the broker has not confirmed a question.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        *,
        requester: Requester,
        answer_seconds: float,
        on_let_go: Callable[[], None],
        on_returned: Callable[[str, str], None],
        on_unconfirmed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requester = requester
        self._answer_seconds = answer_seconds
        self._on_let_go = on_let_go
        self._on_returned = on_returned
        self._on_unconfirmed = on_unconfirmed
        self._clock = clock
        self._lock = threading.Lock()
        self._answers = ProbeAnswers(answer_seconds)
        self._open: dict[tuple[Boot, Probe], list[_OpenProbe]] = {}
        self._held: dict[int, _HeldJob] = {}

    def answered(
        self, router: Router, request: RouteRequest, among: Candidates, due_at: int
    ) -> RouteRequest:
        """Return the request of a run due at `due_at` with the answers known now; does not ask."""
        now = self._clock()
        with self._lock:
            self._give_up(now)
            return self._answers.complete(router, request, among, now, due_at)

    def ask(
        self, app: str, boots: Mapping[str, str], undecided: Iterable[Undecided], now_ms: int
    ) -> None:
        """Hold these jobs back and ask for missing answers, with one message per executor.

        Also asks executors again whose silence was used meanwhile. `now_ms` is the database's time
        at which these runs were found due.
        """
        with self._lock:
            now = AskedAt(self._clock(), now_ms)
            asked = self._questions(Candidates(app, boots), list(undecided), now)
        for probe in Probe:
            self._post([question for question in asked if question.probe is probe])

    def held_back(self) -> set[int]:
        """Return the jobs whose runs cannot be routed yet."""
        with self._lock:
            now = self._clock()
            if self._give_up(now) or now >= self._held_until():
                self._let_go()
            return set(self._held)

    def seconds_left(self) -> float:
        """Return the seconds until the next answer is overdue; infinite when none is awaited."""
        self.held_back()
        with self._lock:
            return max(0.0, self._held_until() - self._clock())

    def note_sent(self, sent: Iterable[Sent]) -> None:
        """Record runs sent to executors that were asked."""
        with self._lock:
            self._answers.count(sent, self._clock())

    def learn_sent(self, sent: Iterable[Sent]) -> None:
        """Record runs in transit to executors, whichever scheduler sent them."""
        with self._lock:
            self._answers.learn(sent, self._clock())

    def note_missing(self, app: str, address: str) -> None:
        """Record that messages sent to an address came back."""
        with self._lock:
            self._answers.expect_nothing(app, address)

    # -- with the lock held, except `_post` and `_hear` -----------------------------------------

    def _questions(
        self, among: Candidates, undecided: list[Undecided], now: AskedAt
    ) -> list[_OpenProbe]:
        self._answers.forget_old(now.at)
        jobs: dict[tuple[Boot, Probe], set[int]] = {}
        for boot in self._answers.stale:
            if (boot, Probe.BEAT) not in self._open:
                jobs[boot, Probe.BEAT] = set()
        self._answers.stale.clear()
        for undecided_run in undecided:
            self._held[undecided_run.job_id] = _HeldJob(
                undecided_run, among, now.at + self._answer_seconds
            )
            probe = undecided_run.router.probe or Probe.BEAT
            for address in undecided_run.request.candidates:
                boot = among.boot(address)
                if self._is_to_be_asked(probe, boot, undecided_run, now.at):
                    jobs.setdefault((boot, probe), set()).add(undecided_run.job_id)
        asked = [
            self._question(boot, probe, job_ids, now) for (boot, probe), job_ids in jobs.items()
        ]
        for question in asked:
            self._open.setdefault((question.boot, question.probe), []).append(question)
        return asked

    def _question(self, boot: Boot, probe: Probe, job_ids: set[int], now: AskedAt) -> _OpenProbe:
        underway = self._answers.expect(boot, probe, job_ids, now.at)
        give_up_at = now.at + self._answer_seconds
        return _OpenProbe(boot, probe, tuple(sorted(job_ids)), underway, now, give_up_at)

    def _is_to_be_asked(self, probe: Probe, boot: Boot, undecided: Undecided, now: float) -> bool:
        if (
            self._answers.answer(probe, boot, undecided.job_id, now, due_at=undecided.due_at)
            is not None
        ):
            return False
        asked = self._open.get((boot, probe), ())
        if probe is Probe.BEAT:
            return not asked
        return not any(
            undecided.job_id in question.job_ids
            and question.asked.at_ms >= undecided.due_at
            and self._answers.is_news(boot, undecided.job_id, question.asked)
            for question in asked
        )

    def _post(self, asked: list[_OpenProbe]) -> None:
        if not asked:
            return

        def hear(position: int, answer: Answer) -> None:
            self._hear(asked[position], answer)

        published = self._requester.post(
            [_question(question) for question in asked], self._answer_seconds, hear
        )
        for position, question in enumerate(asked):
            question.published, question.position = published, position

    def _hear(self, question: _OpenProbe, answer: Answer) -> None:
        now = self._clock()
        with self._lock:
            self._answers.hear(question.boot, answer, question.job_ids, question.asked, now)
            self._close(question)
            is_woken = self._let_go()
        if is_woken:
            self._on_let_go()

    def _give_up(self, now: float) -> bool:
        """Record executors whose answer is overdue as silent; return False if there are none."""
        overdue = [
            question
            for asked in self._open.values()
            for question in asked
            if question.give_up_at <= now
        ]
        for question in overdue:
            self._close(question)
            self._answers.miss(question.boot, now)
            self._look_why(question)
        return bool(overdue)

    def _look_why(self, question: _OpenProbe) -> None:
        """Tell if it is the broker's doing that a question was not answered."""
        if question.published is None:
            return
        is_settled = question.published.is_settled  # without a connection it is, as UNKNOWN
        fate = question.published.wait(0)[question.position]
        if fate is Confirm.RETURNED:
            self._on_returned(question.boot.app, question.boot.address)
        elif fate is Confirm.UNKNOWN and not is_settled:
            self._on_unconfirmed()

    def _close(self, question: _OpenProbe) -> None:
        asked = self._open.get((question.boot, question.probe), [])
        if question in asked:
            asked.remove(question)
            if not asked:
                del self._open[question.boot, question.probe]

    def _let_go(self) -> bool:
        now = self._clock()
        free = [job_id for job_id, held in self._held.items() if self._is_free(held, now)]
        for job_id in free:
            del self._held[job_id]
        return bool(free)

    def _held_until(self) -> float:
        return min((held.until for held in self._held.values()), default=math.inf)

    def _is_free(self, held: _HeldJob, now: float) -> bool:
        if held.until <= now:
            return True
        undecided_run = held.undecided
        request = self._answers.complete(
            undecided_run.router, undecided_run.request, held.among, now, undecided_run.due_at
        )
        return undecided_run.router.is_decided(request)


def _question(asked: _OpenProbe) -> AddressedQuestion:
    def build(question_id: str, reply_to: str) -> Beat | IdleBeat:
        if asked.probe is Probe.BEAT:
            return Beat(question_id=question_id, reply_to=reply_to)
        return IdleBeat(
            question_id=question_id,
            reply_to=reply_to,
            job_ids=asked.job_ids,
            underway=dict(asked.underway),
        )

    return AddressedQuestion(asked.boot, build)
