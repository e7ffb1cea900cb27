"""Bodies and answers about pauses."""

import msgspec

from warren.admin_web.api.endpoint import Call
from warren.admin_web.api.paging import instant_ms
from warren.admin_web.api.problem_answers import Refusal
from warren.scheduler.commands.cluster import NEVER, ClusterCommands, PauseOutcome
from warren.scheduler.views.process_view import pause_facts
from warren.sql.registry.pauses import EVERY_APP, ShownPause


class PauseBody(msgspec.Struct, kw_only=True):
    """Why something is paused, and when the pause ends by itself; null removes its end."""

    reason: str = ""
    until: str | msgspec.UnsetType | None = msgspec.UNSET


class PauseFacts(msgspec.Struct, kw_only=True):
    """A pause of an app: since when, until when, by whom and why."""

    paused_at: str | None = None
    paused_until: str | None = None
    paused_by: str | None = None
    paused_reason: str | None = None


class Changed(msgspec.Struct, kw_only=True):
    """Whether anything changed."""

    changed: bool


def pause(commands: ClusterCommands, call: Call, app_id: int = EVERY_APP) -> Changed:
    """Pause an app, or the whole cluster, as the call's body says."""
    outcome = commands.pause(app_id, reason=call.body.reason, until_ms=_end_ms(call.body.until))
    return Changed(changed=outcome is not PauseOutcome.ALREADY)


def _end_ms(text: str | msgspec.UnsetType | None) -> int | None:
    if text is msgspec.UNSET:
        return None
    try:
        end_ms = instant_ms("until", text)
    except Refusal as refusal:
        errors = [{"pointer": "/until", "detail": refusal.detail}]
        raise Refusal(422, refusal.detail, errors=errors) from refusal
    return NEVER if end_ms is None else end_ms


def pause_answer(one: ShownPause | None) -> PauseFacts | None:
    """Return the answer about an app's pause; None if it is not paused."""
    return PauseFacts(**pause_facts(one)) if one else None
