"""The HTTP API: what programs do with Warren, by tokens, as JSON.

A view is a method marked `@endpoint(…)` of a group in `endpoints/`: it names its scope, its query,
its body and its answer as types, and from these the checks and the OpenAPI document follow. Views
read through `sql` with `call.actor.app_ids` and act through `parts.commands(call.actor)`, as pages
do. There is no other way to add one: without a scope the application does not start.

Flask and msgspec are all that it needs: checks and document are made of the marks, and answers of
`scheduler/views`. It is a process of its own, as the few threads, the cookies and the forms of the
console do not suit programs that wait. An idempotency key is a unique row in its run's transaction.
"""
