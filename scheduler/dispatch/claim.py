"""The facts and decisions of one claiming transaction."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from warren.broker.messages.to_scheduler import HealthIssue
from warren.broker.reasons.codes import Words
from warren.scheduler.completion.end import End
from warren.scheduler.dispatch.workload import Place
from warren.scheduler.jobs.script_cache import Script
from warren.scheduler.limits.room import FullLimit
from warren.scheduler.membership.catalogues import Abilities, Need
from warren.scheduler.metrics.run_counts import Ended
from warren.scheduler.routing.probes import Undecided
from warren.scheduler.routing.routes import Asked, Decision, Memory
from warren.scheduler.triggers.messages import RoutedTrigger
from warren.sql.explanation import Explanation
from warren.sql.models.job_tables import DEFAULT_ROUTE
from warren.sql.run_status import RunStatus
from warren.sql.runs import transitions
from warren.sql.runs.run_rows import PlannedRun
from warren.sql.runs.ticks import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFacts:
    """An app and its executors when the claim began, and the data of the jobs it locked.

    `live` are all boots by address. Runs go to `addresses`, unless a user named others for a run:
    all that are online, or those of the app's own list, which is `listed`, of which `away` are
    offline. `abilities` say which of them have what a run needs. Those in `unhealthy`, with their
    problems, are skipped while another is healthy. `in_flight` is how many runs each has. `route`
    is the default route. `decisions` are those of added routes that the previous claim asked for.
    """

    app_id: int
    app: str
    now_ms: int
    live: Mapping[str, str]
    addresses: tuple[str, ...]
    listed: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    abilities: Abilities = field(default_factory=lambda: Abilities(None, {}))
    in_flight: Mapping[str, int] = field(default_factory=dict)
    route: str = DEFAULT_ROUTE
    unhealthy: Mapping[str, tuple[HealthIssue, ...]] = field(default_factory=dict)
    decisions: Mapping[int, Decision] = field(default_factory=dict)
    memories: Mapping[int, Memory] = field(default_factory=dict)
    scripts: Mapping[int, Script | None] = field(default_factory=dict)

    def able(self, need: Need, addresses: Iterable[str]) -> tuple[str, ...]:
        """Return the addresses that do not lack what a run needs."""
        lacking = self.abilities.lacking(need)
        if not lacking:
            return tuple(addresses)
        return tuple(address for address in addresses if address not in lacking)

    def healthy_or_all(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """Return the addresses that are live and healthy; all of them if none is."""
        listed = tuple(addresses)
        healthy = tuple(
            executor
            for executor in listed
            if executor in self.live and executor not in self.unhealthy
        )
        return healthy or listed


@dataclass(slots=True, kw_only=True)
class ClaimOutcome:
    """The decisions of a claim; a run that appears in none stays PLANNED.

    Sent: `triggers` are published after the commit; `routed` are their runs, `shards` the other
    shards of broadcasts, and `totals` the numbers of shards that were decided now.
    Ended: `ends`, with the route's explanations in `explained`; `missed` is what was nowhere online
    for too long, for each run that it ended; `ended` is what metrics count of them.
    Waiting: `undecided` for answers of executors, `asked` for added routes, and the runs of
    `full_jobs` for the address that is full, or None: for several, or for one that is offline;
    those of `full_limits` for a limit.
    `memories` are to be stored for routes, by job; `covered` are runs to be killed, as newer ones
    take their places, `crowded` those that are skipped because too many others wait.
    `opened` are runs of flows that run now.
    """

    triggers: list[RoutedTrigger] = field(default_factory=list)
    routed: list[transitions.Routed] = field(default_factory=list)
    totals: dict[int, int] = field(default_factory=dict)
    shards: list[Shard] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    explained: dict[int, Explanation] = field(default_factory=dict)
    undecided: list[Undecided] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    full_jobs: dict[int, Place | None] = field(default_factory=dict)
    full_limits: dict[int, FullLimit] = field(default_factory=dict)
    memories: dict[int, Memory] = field(default_factory=dict)
    covered: list[int] = field(default_factory=list)
    crowded: list[PlannedRun] = field(default_factory=list)
    missed: list[Words] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)

    @property
    def has_moved(self) -> bool:
        """Whether a run was sent, opened or ended."""
        return bool(self.triggers or self.ends or self.opened)


@dataclass(slots=True)
class ClaimUsage:
    """What a claim has used so far: runs and jobs by address, characters of scripts."""

    runs: Counter[str] = field(default_factory=Counter)
    jobs: set[tuple[str, int]] = field(default_factory=set)
    script_characters: int = 0

    def add(self, item: RoutedTrigger) -> None:
        """Count a trigger that is sent."""
        self.runs[item.address] += 1
        self.jobs.add((item.address, item.trigger.job_id))


def undelivered(
    run_id: int,
    why: Words,
    now_ms: int,
    *,
    least_wait_seconds: float = 0.0,
    may_retry: bool = True,
) -> End:
    """Return the end of an unrouted run, which holds unless another scheduler has routed it."""
    return End(
        run_id=run_id,
        status=RunStatus.UNDELIVERED,
        message=why,
        finished_at=now_ms,
        only_from=RunStatus.PLANNED,
        least_wait_seconds=least_wait_seconds,
        may_retry=may_retry,
    )
