"""The console: what people do with Warren in a browser. Server-rendered; it never schedules.

How a page is added:

1. *Reading* is a function of `sql/` that takes a session and `app_ids` (None = all apps): what a
   visitor may not see is left out by the query. Lists go on by a key (`before_id`), not an offset.
2. *Acting* goes through `parts.commands(visitor())`, an object of `scheduler.commands` that knows
   who acts, from where and on which apps; it writes the audit trail in its own transaction.
3. A page group is a class in `pages/` with a `name` and the parts that it needs in `__init__`. Its
   views are methods marked `@route(rule, Right.…, methods=…)`; there is no other way to add one, so
   no route is without a right. Append it to `pages/__init__.py`.
   Ids in rules are `<id:run_id>`; places in lists are read by `key_of("before")`.
4. Templates extend `layout.html` and build on `macros/*.html`. Everything is escaped. No `style`
   attribute and no inline script: the content security policy refuses both.
5. Each text is `_("…")` in templates, `gettext`/`lazy_gettext` in Python, and has its Chinese
   line in a file of `translations/zh_CN/`, one for each page group; a test names what is missing.
   What other packages say in English - refusals, reasons, results - goes through `said`: its forms
   stand in `refusal_phrases.py` and `run_phrases.py`, and a test reads their sources for new ones.
6. What changes something is a POST with `{{ csrf() }}`; it ends in a redirect (`303`).
7. The test that walks every route with every role (`tests/unit/admin_web/test_access.py`) needs a
   line for each new endpoint.
8. A page group that belongs into the menu gets a line in `menu.py`; a new script is a file in
   `frontend/src/` and, when not every page needs it, in `frontend/src/entries/`, whose URL a
   template gets by `bundle("name.js")`, empty while nothing is built: each page works without.
"""
