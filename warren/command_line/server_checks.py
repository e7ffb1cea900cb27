"""The checks of `warren check` for schedulers and consoles: database, mail server, routes."""

import socket
from http import HTTPStatus
from http.client import HTTPConnection

from warren.admin_web.identity_provider import ProviderError
from warren.broker.topology import callback_queue
from warren.database_access import durable_queues, open_database, registrations
from warren.errors import WarrenError
from warren.log_store import make_log_store
from warren.route_plugins import look_for_routes
from warren.scheduler.alarms.addresses import MailServer
from warren.scheduler.alarms.mail import Mailer
from warren.scheduler.names import invisible_in
from warren.scheduler.views.process_view import node_view
from warren.settings.secret_files import DATABASE, in_plain_text
from warren.settings.settings import Settings, cluster_keys
from warren.sql.accounts import users
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.errors import SqlError
from warren.sql.jobs import job_names
from warren.sql.registry import cluster, presence
from warren.sql.registry.presence import ProcessState, is_of_host, state
from warren.sql.schema import version
from warren.wiring.processes import broker_settings
from warren.wiring.sso import local_names, make_sso

_ANSWER_SECONDS = 10.0
#: Names of jobs that are looked at, and that a line names.
_MAX_NAMES, _SHOWN_NAMES = 100_000, 5


def check_database(settings: Settings) -> str:
    """Return the database and its schema version, or raise what is wrong."""
    with open_database(settings, for_writing=True) as database:
        words = f"{_shown(database)}, schema {version.newest_version()}" + _servers(database)
        names = database.read(lambda session: job_names.some(session, limit=_MAX_NAMES))
    if hidden := [f"{app}/{name}" for app, name in names if invisible_in(name)]:
        shown = ", ".join(map(ascii, hidden[:_SHOWN_NAMES]))
        words += f"; jobs with invisible characters in their names: {len(hidden)}, such as {shown}"
    return words + in_plain_text(settings, DATABASE)


def check_secret(settings: Settings, words: str) -> str:
    """Return `words` once the cluster and all executors have this secret, or raise."""
    keys = cluster_keys(settings)
    with open_database(settings) as database:
        fingerprints = keys.fingerprints(database.read(cluster.cluster_id))
        known = database.read(cluster.fingerprints)
        rows, now_ms = registrations(database, presence.ADMIN, presence.SCHEDULER)
    if known and not set(fingerprints) & set(known):
        raise ValueError("it is not the secret of this cluster's schedulers and consoles")
    nodes = [node_view(row, now_ms) for row in rows]
    rejected = sorted({name for node in nodes if node.is_online for name in node.rejected})
    if rejected:
        raise ValueError(
            f"no scheduler accepts the key of these executors: {', '.join(rejected)}; "
            "give them what `warren secrets app NAME` prints"
        )
    return f"{words}, the cluster's" if known else words


def look_at_queues(settings: Settings) -> str:
    """Return what is unwise about the queues on RabbitMQ, to be added to a line; empty if nothing.

    A queue that cannot be looked at is left out, as are policies that cannot be listed, which is
    said.
    """
    # Imported here, as for the check of the broker: pika is slow to load.
    from warren.broker.rabbitmq import management, queue_kinds  # noqa: PLC0415

    words = []
    at = broker_settings(settings)
    if settings.wants_quorum:
        try:
            with open_database(settings) as database:
                queues = durable_queues(database)
        except (SqlError, WarrenError):
            queues = [callback_queue()]  # the line about the database says why
        with queue_kinds.open_kinds(at) as kinds:
            classic = kinds.classic(queues)
        if classic:
            words.append(
                f"classic queues, which a node takes with it when it dies: {len(classic)}, such as "
                f"{classic[0]}; to change them: warren broker migrate-queues"
            )
    try:
        words += management.policies(
            at.urls[0], management_url=settings.broker_management_url, ca_file=at.ca_file
        )
    except management.Unanswered as error:
        is_set = settings.broker_management_url is not None
        where = "" if is_set else "; if it is elsewhere: WARREN_BROKER_MANAGEMENT_URL"
        words.append(f"policies not checked: {error}{where}")
    return "".join(f"; {each}" for each in words)


def check_mail_server(settings: Settings) -> str:
    """Return a line saying that the mail server accepts the settings or none is set, or raise."""
    if settings.smtp_url is None:
        return "not set; no e-mails are sent"
    server = MailServer.parse(settings.smtp_url)
    Mailer(server, domain="check").check()
    return f"{server.host} answers and accepts these settings"


def check_log_store(settings: Settings) -> str:
    """Return a line saying that a file can be stored, read and deleted, or raise what is wrong."""
    store = make_log_store(settings)
    return store.check() if store is not None else "not set; logs stay with their executors"


def check_single_sign_on(settings: Settings) -> str:
    """Return what the provider answers, or that none is set, or raise what is wrong."""
    names = local_names(settings)
    sso = make_sso(settings, settings.secret or "", lambda: 0)
    if names is not None:
        with open_database(settings) as database:
            listed = database.read(users.listing)
        if not any(
            user.role == Role.ADMINISTRATOR and users.may_sign_in(user) and user.name in names
            for user in listed
        ):
            raise ValueError(
                "no administrator could sign in with a password while the provider is away: "
                "WARREN_LOCAL_SIGN_IN names none who has one"
            )
    if sso is None:
        return "not set; users sign in with passwords"
    try:
        return sso.provider.check()
    except ProviderError as error:
        raise ValueError(str(error)) from error


def check_routes() -> str:
    """Return the available routes, or raise what is wrong with added ones."""
    routers, faults = look_for_routes()
    if faults:
        raise ValueError("; ".join(f"{point.name} ({point.value}): {why}" for point, why in faults))
    built_in = "the ten built-in ones"
    return f"{built_in} and {', '.join(routers)}" if routers else built_in


def check_alive(settings: Settings, app: str) -> str:
    """Return the name of a live scheduler or console of this host, or raise."""
    host = socket.gethostname()
    with open_database(settings) as database:
        rows, now_ms = registrations(database, presence.ADMIN, app)
    living = [row.address for row in rows if state(row, now_ms) is not ProcessState.SILENT]
    here = next((name for name in living if is_of_host(name, host)), None)
    if here is None:
        raise ValueError(f"no {app} on {host} is alive")
    return f"{here} is alive"


def check_api(settings: Settings) -> str:
    """Return the address of this host's API if it answers, or raise."""
    host = "127.0.0.1" if settings.api_host in ("0.0.0.0", "::") else settings.api_host  # noqa: S104 - it is compared
    connection = HTTPConnection(host, settings.api_port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    finally:
        connection.close()
    if status != HTTPStatus.OK:
        raise ValueError(f"it answered with status {status}")
    return f"{host}:{settings.api_port} answers"


def _servers(database: Database) -> str:
    """Return what each server of a list is good for, or raise what a person must change."""
    found, problems = database.look_at_servers(), []
    if len(found) <= 1:
        if any(each.facts is not None and each.facts.is_read_only for _, each, _ in found):
            raise ValueError(f"{database.server} takes no writes")
        return ""
    said = []
    in_use = next((each for name, each, _ in found if name == database.server), None)
    for name, each, why in found:
        if each.facts is None or (why and each.facts.is_read_only):
            said.append(f"{name}: {why}")
        elif why:
            problems.append(f"{name} can be written, but {why}")
        elif each is in_use:
            said.append(f"{name} is used")
        elif in_use and in_use.facts and each.facts.identity == in_use.facts.identity:
            said.append(f"{name} could be used")
        else:
            problems.append(f"{name} can be written beside {database.server}: set its read_only")
    if problems:
        raise ValueError("; ".join([*problems, *said]))
    return "; servers: " + ", ".join(said)


def _shown(database: Database) -> str:
    return database.url.render_as_string(hide_password=True)
