"""Routes that ask executors pass over the frozen and the dead, and hold up nobody else."""

import signal

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.sql.run_status import RunStatus

NAMES = ("first", "second", "third")
#: Notes its start as the handlers do, for the invariants, and tells which shard it is.
SHARD = """
echo "{\\"run\\": $WARREN_RUN_ID, \\"attempt\\": 0, \\"pid\\": $$}" >> "$1"
echo "shard $2 of $3"
"""


def test_f15_failover_passes_over_a_frozen_and_a_dead_executor(survivors: Deployment) -> None:
    survivors.app = "routed-app"
    first, second, third = (survivors.executor(name, cpu_limit=100) for name in NAMES)
    survivors.await_executors(first, second, third)
    survivors.job("failing-over", route="FAILOVER")
    survivors.job("if-idle", route="BUSYOVER")
    survivors.job("plain", route="LAST")
    survivors.job(
        "everywhere",
        route="SHARDING_BROADCAST",
        handler="",
        script_language="shell",
        script_source=SHARD,
        param=str(survivors.folder / "starts.jsonl"),
    )
    whole = survivors.trigger("everywhere")
    eventually(lambda: len(survivors.runs(origin_id=whole)) == 3)
    survivors.await_final(*(run.id for run in survivors.runs(origin_id=whole)))
    for run in survivors.runs(origin_id=whole):
        assert run.address == NAMES[run.shard_index]
        assert f"shard {run.shard_index} of 3" in run.log_tail

    first.send(signal.SIGSTOP)
    second.kill()
    # Let go all at once, so that one claim takes them all.
    survivors.commands.pause()
    asking = [survivors.trigger(job) for job in ("failing-over", "if-idle")]
    plain = survivors.trigger("plain")
    survivors.commands.resume()
    runs = survivors.await_final(*asking)
    [other] = survivors.await_final(plain)

    assert [(run.status, run.address) for run in runs] == [(RunStatus.SUCCEEDED, "third")] * 2
    for run, words in zip(runs, ("third answered in", "third is idle"), strict=True):
        assert (
            "first did not answer within 1 s; second did not answer within 1 s; "
            in run.trigger_message
        )
        assert words in run.trigger_message
        # The second run may use the silence that the first one waited for. The one that was due
        # after them was not held up.
        assert run.routed_at - other.routed_at >= 900

    first.send(signal.SIGCONT)
    eventually(
        lambda: survivors.await_final(survivors.trigger("failing-over"))[0].address == "first",
        every=0.5,
    )
