"""What executors answered lately, and what it says of a job now. Pure bookkeeping without a lock.

An answer is good for a second, and counts what this scheduler has sent there since.
"""

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from broker.messages import IdleBeatAnswer
from broker.rpc import Answer
from scheduler.route_choice import Probe, ProbeAnswer, Router, RouteRequest

#: How long an answer is good for, and how long silence is: longer, so that a frozen executor does
#: not hold jobs back again and again. It is asked on meanwhile.
ANSWER_SECONDS = 1.0
SILENCE_SECONDS = 5.0
#: How long a trigger may be on its way: what was sent so shortly before a question may not have
#: been seen by who answers it.
UNDERWAY_SECONDS = 0.1
#: Executors about which nobody has asked for so long are forgotten.
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
class _Said:
    """An answer, when it was asked for, and when it came."""

    asked_at: float
    at: float
    answer: Answer

    @property
    def milliseconds(self) -> int:
        return max(1, round((self.at - self.asked_at) * 1000))


@dataclass(slots=True)
class _Known:
    """What is known of one boot; `jobs` are the answers that told of each job.

    `sent` are the runs that went there, by when, and by job; counted once it was asked about jobs.
    """

    used_at: float
    heard: _Said | None = None
    silent_at: float = -math.inf
    jobs: dict[int, _Said] = field(default_factory=dict)
    is_counted: bool = False
    sent: list[tuple[float, int]] = field(default_factory=list)


class Answers:
    """What is known of executors; `answer_seconds` is how long one has to answer.

    `now` is monotonic seconds everywhere. `stale` are boots whose silence was counted, and is old
    enough to ask again.
    """

    def __init__(self, answer_seconds: float) -> None:
        self.stale: set[Boot] = set()
        self._answer_seconds = answer_seconds
        self._known: dict[Boot, _Known] = {}
        self._forgot_at = -math.inf

    def expect(self, boot: Boot, probe: Probe, now: float) -> None:
        """Note that a boot is being asked."""
        known = self._of(boot, now)
        known.is_counted = known.is_counted or probe is Probe.IDLE_BEAT

    def hear(
        self, boot: Boot, answer: Answer, job_ids: Iterable[int], *, asked_at: float, now: float
    ) -> None:
        """Note an answer, to a question about these jobs if it was about any."""
        known = self._of(boot, now)
        known.heard = _Said(asked_at, now, answer)
        if isinstance(answer, IdleBeatAnswer):
            known.jobs.update(dict.fromkeys(job_ids, known.heard))

    def miss(self, boot: Boot, now: float) -> None:
        """Note that a boot did not answer in time."""
        self._of(boot, now).silent_at = now

    def count(self, sent: Iterable[tuple[Boot, int]], now: float) -> None:
        """Note runs, by their jobs, that go to executors; they matter where somebody has asked."""
        for boot, job_id in sent:
            known = self._known.get(boot)
            if known is not None and known.is_counted:
                _count(known, now, job_id)

    def complete(
        self, router: Router, request: RouteRequest, among: Among, now: float
    ) -> RouteRequest:
        """Return the request with what is known now, as far as the route looks."""
        found: dict[str, ProbeAnswer] = {}
        for address in request.candidates if router.probe else ():
            boot = among.boot(address)
            answer = self.answer(router.probe or Probe.BEAT, boot, request.job_id, now, among)
            if answer is None:
                break
            found[address] = answer
            if answer.ok and router.takes_first_ok:
                break
        return request.with_probes(found)

    def answer(
        self, probe: Probe, boot: Boot, job_id: int, now: float, among: Among | None = None
    ) -> ProbeAnswer | None:
        """Return what a boot's answer, or its silence, says of a job; None = it is to be asked."""
        known = self._of(boot, now)
        said = known.heard if probe is Probe.BEAT else known.jobs.get(job_id)
        if said is None or now - said.at > ANSWER_SECONDS:
            known.jobs.pop(job_id, None)
            return self._silence(boot, known, now)
        if probe is Probe.IDLE_BEAT and isinstance(said.answer, IdleBeatAnswer):
            address = boot[1]
            is_given = among is not None and (address, job_id) in among.given
            more = among.taken.get(address, 0) if among is not None else 0
            return _idle(known, said, said.answer, job_id, is_given=is_given, more=more)
        return ProbeAnswer(ok=True, words=f"answered in {said.milliseconds} ms")

    def forget_old(self, now: float) -> None:
        """Drop, from time to time, boots about which nobody has asked for long."""
        if now - self._forgot_at > FORGET_SECONDS:
            self._forgot_at = now
            used = {
                boot: it for boot, it in self._known.items() if now - it.used_at < FORGET_SECONDS
            }
            self._known = used

    def _of(self, boot: Boot, now: float) -> _Known:
        known = self._known.setdefault(boot, _Known(now))
        known.used_at = now
        return known

    def _silence(self, boot: Boot, known: _Known, now: float) -> ProbeAnswer | None:
        heard_at = known.heard.at if known.heard else -math.inf
        silent_seconds = now - known.silent_at
        if known.silent_at < heard_at or silent_seconds > SILENCE_SECONDS:
            return None
        if silent_seconds > ANSWER_SECONDS:
            self.stale.add(boot)
        words = f"did not answer within {self._answer_seconds:g} s"
        return ProbeAnswer(ok=False, words=words, heard=False)


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
