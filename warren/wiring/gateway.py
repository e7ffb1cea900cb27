"""Makes the gateway from the settings."""

from collections.abc import Callable
from functools import cache, partial

from warren.broker.signing import AppKeys, Sealer
from warren.broker.transport import Transport
from warren.errors import SettingsError
from warren.executor.agent import Executor, SchedulerLink
from warren.executor.boot_context import Limits
from warren.executor.core import REMOTE_RETURN_SECONDS
from warren.executor.disk import Reserve
from warren.executor.gateway.allow_list import AccessTokens, AllowList
from warren.executor.gateway.gateway import Gateway
from warren.executor.gateway.peers import Peers, Signatures
from warren.executor.gateway.refused_addresses import RefusedAddresses
from warren.executor.gateway.remote_slots import RemoteLimits
from warren.executor.gateway.remotes import RemoteOptions, Remotes
from warren.executor.messaging.heartbeat import SchedulerClock
from warren.executor.messaging.outbox import Identity, Sender
from warren.executor.processes.interface import SlotsFactory
from warren.executor.state_folder import StateFolder
from warren.settings.settings import KINDS, PREFIX, Settings, app_keys
from warren.wiring.executor import make_run_logs, shared_log_folder

#: No limit: this host's load says nothing about the load of a registered executor.
_WHOLE_PERCENT = 100.0


def make_gateway(settings: Settings, transport: Transport) -> Gateway:
    """Return a gateway that is not started yet.

    Raises:
        SettingsError: a required setting is missing.

    """
    tokens, allowed = needed(settings)
    keys = keys_by_app(settings, tokens)
    options = RemoteOptions(
        state_dir=settings.state_dir / "gateway",
        allowed=allowed,
        tokens=tokens,
        limits=RemoteLimits(
            count=settings.gateway_slots,
            grace_seconds=settings.grace_seconds,
            # Only on request: script authors can run code on machines other than the gateway's.
            script_languages=settings.script_languages if "glue" in settings.was_set else (),
        ),
        run_logs=make_run_logs(settings),
    )
    signatures = Signatures(keys)
    peers = Peers(peers_of(settings), tokens.by_app, signatures)
    remotes = Remotes(
        options,
        partial(_make_executor, settings, transport, keys),
        peers,
        RefusedAddresses(_senders(transport, keys)),
    )
    return Gateway(
        settings.gateway_host,
        settings.gateway_port,
        tokens=tokens,
        remotes=remotes,
        signatures=signatures,
    )


def peers_of(settings: Settings) -> tuple[str, ...]:
    """Return the URLs of the other gateways."""
    return tuple(filter(None, (settings.gateway_peers or "").split(",")))


def needed(settings: Settings) -> tuple[AccessTokens, AllowList]:
    """Return the apps' tokens and the allowed addresses.

    Raises:
        SettingsError: one of them is not set.

    """
    problems = [
        f"{PREFIX}{name.upper()}: expected {KINDS[name].expected}, it is not set"
        for name in ("gateway_tokens", "gateway_allow")
        if getattr(settings, name) is None
    ]
    if settings.gateway_tokens is None or settings.gateway_allow is None:
        raise SettingsError(problems)
    return AccessTokens.parse(settings.gateway_tokens), AllowList.parse(settings.gateway_allow)


def keys_by_app(settings: Settings, tokens: AccessTokens) -> dict[str, AppKeys]:
    """Return the key of each app that is served.

    Raises:
        SettingsError: an app has none.

    """
    return {app: _keys_of(settings, tokens, app) for app in tokens.by_app}


def _keys_of(settings: Settings, tokens: AccessTokens, app: str) -> AppKeys:
    if key := tokens.keys.get(app):
        return AppKeys(app, key)
    is_only = len(tokens.by_app) == 1 and settings.app_secret is not None
    if not is_only and settings.secret is None:
        line = f"{PREFIX}GATEWAY_TOKENS: expected app {app} to have its key after its token; "
        raise SettingsError([f"{line}`warren secrets app {app}` prints it"])
    return app_keys(settings, app)


def _senders(transport: Transport, keys: dict[str, AppKeys]) -> Callable[[str, str], Sender]:
    """Return what makes senders, which share a connection from the first one on."""
    clock, publisher = SchedulerClock(), cache(partial(transport.publisher, "refused addresses"))

    def make(app: str, address: str) -> Sender:
        sealer = Sealer(keys[app], None, clock.now_ms)
        return Sender(Identity.checked(app, address), sealer, publisher())

    return make


def _make_executor(
    settings: Settings,
    transport: Transport,
    keys: dict[str, AppKeys],
    *,
    app: str,
    address: str,
    slots: SlotsFactory,
    folder: StateFolder,
    boot_id: str,
) -> Executor:
    return Executor(
        Identity.checked(app, address, boot_id),
        SchedulerLink(transport, keys[app]),
        make_slots=slots,
        run_logs=make_run_logs(settings),
        state=folder,
        limits=Limits(
            slots=settings.gateway_slots,
            grace_seconds=settings.grace_seconds,
            drain_seconds=settings.drain_seconds,
            cpu_limit=_WHOLE_PERCENT,
            memory_limit=_WHOLE_PERCENT,
            bequest_seconds=REMOTE_RETURN_SECONDS,
            log_spool_bytes=Reserve.parse(settings.log_spool).size,
        ),
        log_folder=shared_log_folder(settings),
        prints_logs=settings.log_stdout == "json",
    )
