"""The console: Warren in a browser. Pages are rendered on the server; it never schedules.

How to add a page:

1. *To read*, write a function in `sql/` that takes a session and `app_ids` (None = all apps), so
   that the query leaves out what a visitor may not see. Lists continue by a key (`before_id`), not
   by an offset.
2. *To act*, call `services.commands(visitor().actor)`. The commands know who acts, from where and
   on which apps, and write the audit log in their own transaction.
3. A page group is a class in `pages/` with a `name`, listed in `pages/__init__.py`. Its views are
   methods marked `@route(rule, Right.…, methods=…)`. There is no other way to add a route, so
   every route has a right. Ids in rules are `<id:run_id>`; read ids in the query by
   `id_argument("before")`.
4. Templates extend `layout.html` and use `macros/*.html`. Everything is escaped. No `style`
   attributes and no inline scripts: the content security policy refuses both.
5. Write texts as `_("…")` in templates and `gettext`/`lazy_gettext` in Python, and add the Chinese
   to a file of `translations/zh_CN/`, one for each page group; a test names what is missing. Show a
   stored reason with `stored_text`, a reason in memory with `reason_text`, and a refusal with
   `language.labels.problem_text`.
6. Every change is a POST with `{{ csrf() }}` that ends in a redirect (`303`).
7. `tests/integration/admin_web/every_route/test_access.py` tries every route with every role, and
   needs a line for each new endpoint.
8. If the group belongs in the menu, give it a line in `links.py`. A new script is a file in
   `frontend/src/`; one that only some pages need goes into `frontend/src/entries/`, and templates
   get its URL by `bundle("name.js")`. The URL is empty while the bundle is not built: every page
   works without scripts.
"""
