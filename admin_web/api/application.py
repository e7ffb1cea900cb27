"""Builds the API's Flask application; there is no application at module level."""

from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import unquote_to_bytes

from flask import Flask, request
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.test import EnvironBuilder, run_wsgi_app
from werkzeug.wrappers import Response

from warren.admin_web.api.authentication import Authentication, ConcurrencyLimits, too_many_requests
from warren.admin_web.api.bodies import READ_BY_VIEW, parsed, read_body, read_query
from warren.admin_web.api.endpoint import BASE, Call, Mounted, Reply, mounted
from warren.admin_web.api.endpoints import groups
from warren.admin_web.api.openapi import document
from warren.admin_web.api.problem_answers import ProblemAnswers, Refusal
from warren.admin_web.api.run_answers import ApiRequest, HeldRequest, LongPolling, Wait
from warren.admin_web.services import ApiServices
from warren.admin_web.url_routes import IdConverter
from warren.resources.instant import encode
from warren.resources.operation import CLOCK_HEADER, JSON, MERGE_PATCH
from warren.scheduler.actor import Actor
from warren.sql.engine import Database
from warren.sql.ids import RunIds

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
#: More parameters than any query of ours has.
_ARGUMENTS = 100
_HEALTH = "health"


def create_api(services: ApiServices, caller: Actor | None = None) -> Flask:
    """Return the API as a WSGI application.

    With a `caller`, it is for this process alone, without tokens, and raises its own errors.

    Raises:
        LookupError: a view has no scope, or a route belongs to no view.

    """
    app = Flask("warren.admin_web", static_folder=None)
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.request_class = ApiRequest
    app.url_map.converters["id"] = IdConverter
    app.url_map.merge_slashes = False
    views = mounted(groups(services))
    limits = services.limits
    polling = LongPolling(
        services.database,
        places=ConcurrencyLimits(limits.waiting, limits.waiting_of_user),
        poll_seconds=limits.poll_seconds,
    )
    heavy = ConcurrencyLimits(limits.heavy, limits.heavy_of_user)
    server = _Server(Authentication(services, caller), heavy, polling, services.now_ms)
    for view in views:
        app.add_url_rule(
            BASE + view.endpoint.rule,
            endpoint=view.name,
            view_func=server.view_function(view),
            methods=[view.endpoint.method],
            # The base path itself is served with and without its slash.
            strict_slashes=view.endpoint.rule != "/",
        )
    app.add_url_rule("/healthz", endpoint=_HEALTH, view_func=lambda: _health(services))
    unmarked = {rule.endpoint for rule in app.url_map.iter_rules()}
    unmarked -= {view.name for view in views} | {_HEALTH}
    if unmarked:
        raise LookupError(f"routes that are no views: {', '.join(sorted(unmarked))}")
    ProblemAnswers(services.version).install(app, is_remote=caller is None)
    app.after_request(_set_headers)
    app.extensions["warren_views"] = views
    app.extensions["warren_polling"] = polling
    if services.trusted_proxies:
        count = services.trusted_proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=count, x_proto=count)  # type: ignore[method-assign]
    return app


def api_description() -> dict[str, Any]:
    """Return the API's description in OpenAPI, without a database."""
    # No view is called, so this database is never opened.
    database = Database("sqlite:////dev/null")
    try:
        none: Any = None  # no job file is read
        services = ApiServices(
            database=database,
            now_ms=lambda: 0,
            run_ids=RunIds(database),
            cluster_zone=lambda: "UTC",
            job_files=none,
            is_broker_up=lambda: False,
        )
        return document(create_api(services).extensions["warren_views"])
    finally:
        database.close()


class InProcess:
    """Answers requests of this process without a server."""

    def __init__(self, services: ApiServices, caller: Actor) -> None:
        self._app = create_api(services, caller)

    def answer(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return the status, the headers and the body; raises what is wrong with the database."""
        environ = EnvironBuilder(
            f"{BASE}{path}",
            method=method,
            data=body,
            headers=list(headers.items()),
            content_type=JSON if body else None,
        ).get_environ()
        parts, status, named = run_wsgi_app(self._app, environ)
        return int(status.partition(" ")[0]), dict(named), b"".join(parts)


class _Server:
    """Admits a request, reads it, calls its view, and writes the answer."""

    def __init__(
        self,
        admission: Authentication,
        heavy: ConcurrencyLimits,
        polling: LongPolling,
        now_ms: Callable[[], int],
    ) -> None:
        self._admission = admission
        self._heavy = heavy
        self._polling = polling
        self._now_ms = now_ms

    def view_function(self, view: Mounted) -> Callable[..., Response]:
        """Return the function that Flask calls for a view."""

        def serve(**names: Any) -> Response:
            answer = self._served(view, names)
            answer.headers[CLOCK_HEADER] = str(self._now_ms())
            return answer

        return serve

    def _served(self, view: Mounted, names: dict[str, Any]) -> Response:
        held = cast(ApiRequest, request).held
        if held is not None:
            return self._resumed(held, view)
        call = self._admission.admit(view.endpoint)
        if call is None:
            if view.endpoint.body is None:
                return _written(view.view(None, **names), view)
            call = _unknown_caller()
        _read(call, view)
        if not view.endpoint.is_heavy:
            return self._held_or_written(call, view.view(call, **names), view)
        with self._heavy.taken(call.user_id) as is_taken:
            if not is_taken:
                raise too_many_requests("too many slow requests are running; try again later", 1)
            return _written(view.view(call, **names), view)

    def _held_or_written(self, call: Call, result: Any, view: Mounted) -> Response:
        if not isinstance(result, Wait):
            return _written(result, view)
        if self._polling.hold(call.user_id, result):
            return Response()  # not sent: the server holds the connection
        return _written(result.at_once, view)

    def _resumed(self, held: HeldRequest, view: Mounted) -> Response:
        reply = self._polling.answer(held, lambda: self._admission.admit_again(view.endpoint))
        return Response() if reply is None else _written(reply, view)


def _unknown_caller() -> Call:
    """Return the call of somebody without a token, who has no right at all."""
    actor = Actor(who="", origin=request.remote_addr or "", rights=frozenset())
    return Call(actor=actor, user_id=0, token_name="", owner="", scopes=frozenset())


def _read(call: Call, view: Mounted) -> None:
    endpoint = view.endpoint
    _refuse_other_encodings()
    if request.query_string.count(b"&") >= _ARGUMENTS:
        raise Refusal(400, f"expected up to {_ARGUMENTS} parameters")
    if endpoint.query is not None:
        call.query = read_query(endpoint.query, request.args)
    elif request.args:
        raise Refusal(400, "expected no query")
    if endpoint.body is None:
        return
    call.raw = _raw(endpoint.body_bytes)
    media = request.mimetype or (JSON if not call.raw else "")
    if media not in endpoint.media:
        raise Refusal(
            415,
            f"expected content of type {' or '.join(endpoint.media)}",
            headers={"Accept-Post": ", ".join(endpoint.media)},
        )
    if media in {JSON, MERGE_PATCH}:
        value = parsed(call.raw)
        is_read = media == JSON and not getattr(endpoint.body, READ_BY_VIEW, False)
        call.body = read_body(endpoint.body, value) if is_read else value


def _refuse_other_encodings() -> None:
    """Refuse names in another encoding than UTF-8, which would be read as other names."""
    path = cast(ApiRequest, request).path_bytes
    for what, text in (("path", path), ("query", unquote_to_bytes(request.query_string))):
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise Refusal(400, f"expected the {what} in UTF-8") from error


def _raw(most: int) -> bytes:
    request.max_content_length = most
    if (request.content_length or 0) > most:
        raise Refusal(413, f"expected a body of up to {most} bytes")
    return request.get_data(cache=False)


def _written(result: Any, view: Mounted) -> Response:
    reply = result if isinstance(result, Reply) else Reply(value=result)
    status = reply.status or view.endpoint.status
    raw = b"" if reply.value is None else reply.value
    data = raw if isinstance(raw, bytes) else encode(raw)
    media = reply.media if data else None
    answer = Response(data, status=status, content_type=media)
    answer.headers.update(reply.headers)
    return answer


def _set_headers(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def _health(services: ApiServices) -> tuple[dict[str, Any], int]:
    """Return whether this process can serve; without names, addresses or a version."""
    services.database.read(lambda session: session.connection())
    return {"status": "ok", "broker": services.is_broker_up()}, 200
