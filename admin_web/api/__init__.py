"""The HTTP API: Warren for programs, with tokens and JSON.

A view is a method marked `@endpoint(…)` of a group in `endpoints/`. The mark names its scope and
the types of its query, body and answer; the checks and the OpenAPI document follow from these.
Views read through `sql` with `call.actor.app_ids` and act through `services.commands(call.actor)`,
as pages do. There is no other way to add one: without a scope the application does not start.

It needs only Flask and msgspec: checks and document are generated from the marks, and answers from
`scheduler/views`. It is a separate process, because the few threads, the cookies and the forms of
the console do not suit programs that wait. An idempotency key is a unique row, inserted in the
transaction of its run.
"""
