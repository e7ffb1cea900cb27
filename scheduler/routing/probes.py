"""Asks executors whether they are alive, or idle, before a route chooses; never blocks.

    claim meets an undecided route -> its run stays PLANNED, its job is held back -> one question
    for each executor -> answers, or silence past the deadline -> the job is let go, and claimed

One question covers all jobs of a batch. An executor that is slow to answer holds back only the jobs
whose choice depends on it.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from warren.broker.messages import Answer, Beat, Boot, IdleBeat
from warren.broker.rpc import AddressedQuestion, Requester
from warren.scheduler.routing.probe_answers import AskedAt, Candidates, ProbeAnswers, Sent
from warren.scheduler.routing.routes import Probe, Router, RouteRequest


@dataclass(frozen=True, slots=True)
class Undecided:
    """A run that cannot be routed before executors have answered, with its due time in epoch ms."""

    job_id: int
    router: Router
    request: RouteRequest
    due_at: int


@dataclass(frozen=True, slots=True)
class _OpenProbe:
    """An unanswered question; `underway` are the runs sent there, by job."""

    boot: Boot
    probe: Probe
    job_ids: tuple[int, ...]
    underway: Mapping[int, tuple[int, ...]]
    asked: AskedAt
    give_up_at: float


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
        clock: monotonic seconds.

    """

    def __init__(
        self,
        *,
        requester: Requester,
        answer_seconds: float,
        on_let_go: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requester = requester
        self._answer_seconds = answer_seconds
        self._on_let_go = on_let_go
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

        self._requester.post(
            [_question(question) for question in asked], self._answer_seconds, hear
        )

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
        return bool(overdue)

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
