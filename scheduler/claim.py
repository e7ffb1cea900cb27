"""What one claiming transaction is about, and what it decides."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.added_routes import Asked, Decision
from scheduler.aftermath import End
from scheduler.delivery import Parcel
from scheduler.probes import Undecided
from scheduler.route_choice import Memory
from scheduler.scripts import Script
from sql import runs
from sql.rows import AnyRow
from sql.run_status import RunStatus
from sql.shards import Shard


@dataclass(slots=True)
class Claim:
    """For which app and executors runs are claimed, and what is decided.

    `live` are all boots by address. Routed is to `addresses`: all of them, or those of the app's
    own list, of which `away` are not online; unless a user named others for a run.

    `totals` are how many shards runs are of that were not expanded before, and `shards` the other
    ones of broadcasts. `full_jobs` are those with runs that stay PLANNED: their address is full, or
    away. The jobs of `undecided` wait for what executors answer; `asked` wait for routes that an
    installation has added, whose `decisions` are those of the claim before. `taken` counts what
    goes to each address, `given` says of which jobs. `script_characters` is what their
    scripts come to.
    """

    app_id: int
    app: str
    live: dict[str, str]
    now_ms: int
    addresses: tuple[str, ...]
    away: tuple[str, ...] = ()
    decisions: Mapping[int, Decision] = field(default_factory=dict)
    memories: Mapping[int, Memory] = field(default_factory=dict)
    parcels: list[Parcel] = field(default_factory=list)
    routed: list[runs.Routed] = field(default_factory=list)
    totals: dict[int, int] = field(default_factory=dict)
    shards: list[Shard] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    explained: dict[int, str] = field(default_factory=dict)
    new_memories: dict[int, Memory] = field(default_factory=dict)
    full_jobs: set[int] = field(default_factory=set)
    undecided: list[Undecided] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    taken: Counter[str] = field(default_factory=Counter)
    given: set[tuple[str, int]] = field(default_factory=set)
    scripts: Mapping[int, Script | None] = field(default_factory=dict)
    script_characters: int = 0

    @property
    def has_moved(self) -> bool:
        """Whether a run was sent or ended."""
        return bool(self.parcels or self.ends)

    def add(self, item: Parcel) -> None:
        """Send something, and count it where it goes."""
        self.parcels.append(item)
        self.taken[item.address] += 1
        self.given.add((item.address, item.trigger.job_id))


def undelivered(row: AnyRow, why: str, now_ms: int, *, pause_seconds: float = 0.0) -> End:
    """Give up a run that is not routed; one that another scheduler has routed meanwhile stays."""
    return End(
        run_id=row.id,
        status=RunStatus.UNDELIVERED,
        message=why,
        finished_at=now_ms,
        only_from=RunStatus.PLANNED,
        pause_seconds=pause_seconds,
    )
