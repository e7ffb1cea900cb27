"""Asks executors whether they live, or are idle, before a route chooses; nobody waits here.

    claim meets an undecided route -> its run stays PLANNED, its job is held back -> one question
    for each executor -> answers, or silence past the deadline -> the job is let go, and claimed

An answer is good for a second and counts what this scheduler has sent there since. A question is
about all jobs of a batch. An executor that is slow to answer holds back only the jobs whose choice
depends on it.
"""

import math
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from broker.messages import Beat, IdleBeat, IdleBeatAnswer
from broker.rpc import Answer, Question, Requester
from scheduler.route_choice import Probe, ProbeAnswer, Router, RouteRequest

#: How long an answer is good for, and how long silence is: longer, so that a frozen executor does
#: not hold jobs back again and again. It is asked on meanwhile.
ANSWER_SECONDS = 1.0
SILENCE_SECONDS = 5.0
#: How long a trigger may be on its way: what was sent so shortly before a question may not have
#: been seen by who answers it.
UNDERWAY_SECONDS = 0.1
#: Executors of which nothing was asked or sent for so long are forgotten.
FORGET_SECONDS = 60.0

#: Runs sent to an executor that are remembered without looking which of them count no more.
SENT_KEPT = 200

#: App, address and boot id of an executor.
Boot = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Among:
    """The executors of an app, by address, and what a claim that is not over sends there.

    `taken` counts it by address, `given` says of which jobs.
    """

    app: str
    boots: Mapping[str, str]
    taken: Mapping[str, int] = field(default_factory=dict)
    given: Collection[tuple[str, int]] = ()

    def boot(self, address: str) -> Boot:
        """Return the boot that holds an address."""
        return self.app, address, self.boots[address]


@dataclass(frozen=True, slots=True)
class Undecided:
    """A job's run that cannot be routed before executors have answered."""

    job_id: int
    router: Router
    request: RouteRequest


@dataclass(frozen=True, slots=True)
class _Said:
    """A good answer: when it was asked for and came, and to an idle beat what it said of a job."""

    asked_at: float
    at: float
    answer: Answer | None = None


@dataclass(slots=True)
class _Known:
    """What is known of one boot; `jobs` are the answers that told of each job.

    `sent` are the runs that went there, by when, and by job; counted once an idle beat was sent.
    """

    used_at: float
    heard: _Said | None = None
    silent_at: float = -math.inf
    jobs: dict[int, _Said] = field(default_factory=dict)
    is_counted: bool = False
    sent: list[tuple[float, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Open:
    """A question that is not answered yet."""

    boot: Boot
    probe: Probe
    job_ids: tuple[int, ...]
    asked_at: float
    give_up_at: float


@dataclass(frozen=True, slots=True)
class _Held:
    """A job that is held back, until its route can choose or the last answer is overdue."""

    undecided: Undecided
    among: Among
    until: float


class Probes:
    """What executors answered lately; thread-safe.

    Args:
        requester: asks; it is never waited for.
        answer_seconds: how long an executor has to answer.
        on_let_go: called in any thread when jobs are no more held back.
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
        self._known: dict[Boot, _Known] = {}
        self._open: list[_Open] = []
        self._held: dict[int, _Held] = {}
        self._to_refresh: set[Boot] = set()
        self._forgot_at = clock()

    def answered(self, router: Router, request: RouteRequest, among: Among) -> RouteRequest:
        """Return the request with what is known now, as far as the route looks; it does not ask."""
        now = self._clock()
        with self._lock:
            self._give_up(now)
            return self._answered(router, request, among, now)

    def ask(self, app: str, boots: Mapping[str, str], undecided: Iterable[Undecided]) -> None:
        """Hold these jobs back and ask for what is not known, one message for each executor.

        It also asks executors again whose silence was counted meanwhile.
        """
        now = self._clock()
        with self._lock:
            asked = self._questions(Among(app, boots), list(undecided), now)
        for probe in Probe:
            self._post([one for one in asked if one.probe is probe])

    def held_back(self) -> set[int]:
        """Return the jobs whose runs cannot be routed yet."""
        with self._lock:
            now = self._clock()
            if self._give_up(now) or now >= self._held_until():
                self._let_go()
            return set(self._held)

    def seconds_left(self) -> float:
        """Return how long the next answer may take at most; infinite when none is awaited."""
        self.held_back()
        with self._lock:
            return max(0.0, self._held_until() - self._clock())

    def note_sent(self, sent: Iterable[tuple[Boot, int]]) -> None:
        """Count runs, by their jobs, that go to executors about which somebody has asked."""
        if not self._known:
            return
        now = self._clock()
        with self._lock:
            for boot, job_id in sent:
                known = self._known.get(boot)
                if known is not None and known.is_counted:
                    _count(known, now, job_id)

    # -- asking -------------------------------------------------------------------------------

    def _questions(self, among: Among, undecided: list[Undecided], now: float) -> list[_Open]:
        if now - self._forgot_at > FORGET_SECONDS:
            self._forget(now)
        jobs: dict[tuple[Boot, Probe], list[int]] = {}
        for boot in self._to_refresh:
            jobs[boot, Probe.BEAT] = []
        self._to_refresh.clear()
        for one in undecided:
            self._held[one.job_id] = _Held(one, among, now + self._answer_seconds)
            probe = one.router.probe or Probe.BEAT
            for address in one.request.candidates:
                boot = among.boot(address)
                if self._is_to_be_asked(probe, boot, one.job_id, now):
                    jobs.setdefault((boot, probe), []).append(one.job_id)
        for boot, probe in jobs:
            known = self._of(boot, now)
            known.is_counted = known.is_counted or probe is Probe.IDLE_BEAT
        asked = [
            _Open(boot, probe, tuple(job_ids), now, now + self._answer_seconds)
            for (boot, probe), job_ids in jobs.items()
        ]
        self._open += asked
        return asked

    def _is_to_be_asked(self, probe: Probe, boot: Boot, job_id: int, now: float) -> bool:
        if self._answer(probe, boot, job_id, now) is not None:
            return False  # what it was sent since the answer makes it no less known
        return not any(
            one.boot == boot
            and one.probe is probe
            and (probe is Probe.BEAT or job_id in one.job_ids)
            for one in self._open
        )

    def _post(self, asked: list[_Open]) -> None:
        if not asked:
            return

        def hear(position: int, answer: Answer) -> None:
            self._hear(asked[position], answer)

        self._requester.post([_question(one) for one in asked], self._answer_seconds, hear)

    # -- hearing ------------------------------------------------------------------------------

    def _hear(self, question: _Open, answer: Answer) -> None:
        now = self._clock()
        with self._lock:
            known = self._of(question.boot, now)
            known.heard = _Said(question.asked_at, now)
            if isinstance(answer, IdleBeatAnswer):
                told = _Said(question.asked_at, now, answer)
                known.jobs.update(dict.fromkeys(question.job_ids, told))
            if question in self._open:
                self._open.remove(question)
            is_woken = self._let_go()
        if is_woken:
            self._on_let_go()

    def _give_up(self, now: float) -> bool:
        """Note the silence of those whose answer is overdue; False when there are none."""
        overdue = [one for one in self._open if one.give_up_at <= now]
        for one in overdue:
            self._open.remove(one)
            self._of(one.boot, now).silent_at = now
        return bool(overdue)

    def _forget(self, now: float) -> None:
        self._forgot_at = now
        self._known = {
            boot: known
            for boot, known in self._known.items()
            if now - known.used_at < FORGET_SECONDS
        }

    def _let_go(self) -> bool:
        now = self._clock()
        free = [job_id for job_id, held in self._held.items() if self._is_free(held, now)]
        for job_id in free:
            del self._held[job_id]
        return bool(free)

    def _held_until(self) -> float:
        return min((held.until for held in self._held.values()), default=math.inf)

    def _is_free(self, held: _Held, now: float) -> bool:
        if held.until <= now:
            return True
        one = held.undecided
        request = self._answered(one.router, one.request, held.among, now)
        return one.router.is_decided(request)

    # -- knowing ------------------------------------------------------------------------------

    def _answered(
        self, router: Router, request: RouteRequest, among: Among, now: float
    ) -> RouteRequest:
        found: dict[str, ProbeAnswer] = {}
        for address in request.candidates if router.probe else ():
            answer = self._answer(
                router.probe or Probe.BEAT, among.boot(address), request.job_id, now, among
            )
            if answer is None:
                break
            found[address] = answer
            if answer.ok and router.takes_first_ok:
                break
        return request.with_probes(found)

    def _of(self, boot: Boot, now: float) -> _Known:
        known = self._known.setdefault(boot, _Known(now))
        known.used_at = now
        return known

    def _answer(
        self, probe: Probe, boot: Boot, job_id: int, now: float, among: Among | None = None
    ) -> ProbeAnswer | None:
        known = self._of(boot, now)
        said = known.heard if probe is Probe.BEAT else known.jobs.get(job_id)
        if said is None or now - said.at > ANSWER_SECONDS:
            known.jobs.pop(job_id, None)
            return self._silence(boot, known, now)
        if isinstance(said.answer, IdleBeatAnswer):
            address = boot[1]
            is_given = among is not None and (address, job_id) in among.given
            more = among.taken.get(address, 0) if among is not None else 0
            return _idle(known, said, said.answer, job_id, is_given=is_given, more=more)
        return ProbeAnswer(ok=True, words=f"answered in {_milliseconds(said)} ms")

    def _silence(self, boot: Boot, known: _Known, now: float) -> ProbeAnswer | None:
        heard_at = known.heard.at if known.heard else -math.inf
        silent_seconds = now - known.silent_at
        if known.silent_at < heard_at or silent_seconds > SILENCE_SECONDS:
            return None
        if silent_seconds > ANSWER_SECONDS and not any(one.boot == boot for one in self._open):
            self._to_refresh.add(boot)
        words = f"did not answer within {self._answer_seconds:g} s"
        return ProbeAnswer(ok=False, words=words, heard=False)


def _question(asked: _Open) -> Question:
    app, address, boot_id = asked.boot

    def build(question_id: str, reply_to: str) -> Beat | IdleBeat:
        if asked.probe is Probe.BEAT:
            return Beat(question_id=question_id, reply_to=reply_to)
        return IdleBeat(question_id=question_id, reply_to=reply_to, job_ids=asked.job_ids)

    return app, address, boot_id, build


def _idle(
    known: _Known, said: _Said, answer: IdleBeatAnswer, job_id: int, *, is_given: bool, more: int
) -> ProbeAnswer:
    """Return what an answer to an idle beat, and what was sent there since, say of a job.

    `more` runs go there in the claim under way; `is_given` when one of them is of this job.
    """
    if job_id in answer.busy_jobs:
        return _busy(answer.busy_jobs[job_id])
    if answer.busy_executor:
        return _busy(answer.busy_executor)
    since = bisect_left(known.sent, (said.asked_at - UNDERWAY_SECONDS, 0))
    left = answer.free_slots - (len(known.sent) - since) - more
    if left <= 0:
        return _busy("its free slots were taken a moment ago")
    if is_given or any(sent_job == job_id for _, sent_job in known.sent[since:]):
        return _busy("the job was sent there a moment ago")
    return ProbeAnswer(ok=True, words=f"is idle, slots free: {left}")


def _busy(why: str) -> ProbeAnswer:
    return ProbeAnswer(ok=False, words=f"is busy: {why}")


def _count(known: _Known, now: float, job_id: int) -> None:
    known.sent.append((now, job_id))
    if len(known.sent) > SENT_KEPT:
        # What was sent before the oldest answer that is still good was asked for counts no more.
        oldest = now - 2 * ANSWER_SECONDS - UNDERWAY_SECONDS
        del known.sent[: bisect_left(known.sent, (oldest, 0))]


def _milliseconds(said: _Said) -> int:
    return max(1, round((said.at - said.asked_at) * 1000))
