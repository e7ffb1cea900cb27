"""The console: what people do with Warren in a browser. Server-rendered; it never schedules.

How to add a page:

1. *To read*, write a function in `sql/` that takes a session and `app_ids` (None = all apps), so
   that the query leaves out what a visitor may not see. Lists go on by a key (`before_id`), not an
   offset.
2. *To act*, call `services.commands(visitor().actor)`. The commands know who acts, from where and
   on which apps, and write the audit log in their own transaction.
3. A page group is a class in `pages/` with a `name`, listed in `pages/__init__.py`. Its views are
   methods marked `@route(rule, Right.…, methods=…)`. There is no other way to add a route, so none
   is without a right. Ids in rules are `<id:run_id>`; ids in the query are read by
   `id_argument("before")`.
4. Templates extend `layout.html` and use `macros/*.html`. Everything is escaped. No `style`
   attributes and no inline scripts: the content security policy refuses both.
5. Write texts as `_("…")` in templates and `gettext`/`lazy_gettext` in Python, and add the Chinese
   to a file of `translations/zh_CN/`, one for each page group; a test names what is missing. Show a
   stored reason with `stored_text`, a reason in memory with `reason_text`, and a refusal with
   `language/problem_text.py`.
6. Whatever changes something is a POST with `{{ csrf() }}` and ends in a redirect (`303`).
7. `tests/unit/admin_web/test_access.py` walks every route with every role, and needs a line for
   each new endpoint.
8. Give the group a line in `menu.py` if it belongs into the menu. A new script is a file in
   `frontend/src/`; one that not every page needs goes into `frontend/src/entries/`, and templates
   get its URL by `bundle("name.js")`. That is empty while nothing is built: each page works
   without.
"""
