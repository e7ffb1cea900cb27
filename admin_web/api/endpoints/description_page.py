"""The API's description as a page for people: English like the description, and without scripts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from markupsafe import Markup, escape

Schema = Mapping[str, Any]
_SCHEMAS = "#/components/schemas/"
_PAGE = Markup("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="docs.css">
</head>
<body>
<main>
<h1>{title}</h1>
<p>{about}</p>
<p>For programs: <a href="openapi.json">openapi.json</a></p>
<nav aria-label="Contents">{contents}</nav>
{body}
</main>
</body>
</html>
""")
_HEADING = Markup('<h2 id="{id}">{words}</h2>')
_SECTION = Markup('<section id="{id}">\n<h3>{title}</h3>\n{body}\n</section>')
_LINK = Markup('<a href="#{id}">{words}</a>')
_PARAGRAPH, _ITEM = Markup("<p>{}</p>"), Markup("<li>{}</li>")
_LIST, _CODE = Markup("<p>{}</p>\n<ul>\n{}\n</ul>"), Markup("<code>{}</code>")


def description_page(document: Mapping[str, Any]) -> str:
    """Return the page of a description, as HTML."""
    info, groups = document["info"], [tag["name"] for tag in document["tags"]]
    schemas = document["components"]["schemas"]
    body = [part for group in groups for part in _group(document, group)]
    body.append(_HEADING.format(id="schemas", words="Schemas"))
    body += [_schema(name, schema) for name, schema in schemas.items()]
    contents = [_LINK.format(id=f"group-{group}", words=_title(group)) for group in groups]
    contents.append(_LINK.format(id="schemas", words="Schemas"))
    return _PAGE.format(
        title=f"{info['title']} HTTP API {info['version']}",
        about=_marked(info["description"]),
        contents=Markup(" · ").join(contents),
        body=Markup("\n").join(body),
    )


def _title(group: str) -> str:
    return group.replace("_", " ").capitalize()


def _group(document: Mapping[str, Any], group: str) -> Iterator[Markup]:
    yield _HEADING.format(id=f"group-{group}", words=_title(group))
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if group in operation["tags"]:
                yield _operation(f"{method.upper()} {path}", operation)


def _operation(call: str, operation: Mapping[str, Any]) -> Markup:
    parts = [
        _PARAGRAPH.format(_marked(operation["summary"])),
        *(_PARAGRAPH.format(_marked(text)) for text in [operation.get("description")] if text),
        _PARAGRAPH.format(Markup("Scope: {}").format(_CODE.format(operation["x-scope"]))),
        _list("Parameters:", map(_parameter, operation["parameters"])),
    ]
    if body := operation.get("requestBody"):
        parts.append(_list("Body:", [_contents(body["content"])]))
    parts.append(_list("Answers:", map(_answer, operation["responses"].items())))
    return _SECTION.format(
        id=operation["operationId"], title=_CODE.format(call), body=Markup("\n").join(parts)
    )


def _schema(name: str, schema: Schema) -> Markup:
    required = schema.get("required", ())
    fields = [
        Markup("{}: {}{}").format(
            _CODE.format(field), _kind(kind), ", required" if field in required else ""
        )
        for field, kind in schema.get("properties", {}).items()
    ]
    about = _PARAGRAPH.format(_marked(schema.get("description", "")))
    body = about + (_list("Fields:", fields) or _PARAGRAPH.format(_kind(schema)))
    return _SECTION.format(id=name, title=name, body=body)


def _parameter(one: Mapping[str, Any]) -> Markup:
    schema, about = one["schema"], one.get("description", "")
    default = msgspec.json.encode(schema["default"]).decode() if schema.get("default") else ""
    return Markup("{} ({}): {}{}{}").format(
        _CODE.format(one["name"]),
        one["in"],
        _kind(schema),
        f"; default {default}" if default else "",
        Markup(". {}").format(_marked(about)) if about else "",
    )


def _answer(answer: tuple[str, Mapping[str, Any]]) -> Markup:
    status, described = answer
    when = "otherwise" if status == "default" else status
    words = Markup("{}: {}").format(when, described["description"])
    content = described.get("content")
    return Markup("{}, {}").format(words, _contents(content)) if content else words


def _contents(content: Mapping[str, Any]) -> Markup:
    return Markup(", ").join(
        Markup("{} ({})").format(_CODE.format(media), _kind(one["schema"]))
        for media, one in content.items()
    )


def _kind(schema: Schema) -> Markup:
    """Return what values a schema allows, with links to the schemas that it names."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_SCHEMAS)
        return _LINK.format(id=name, words=name)
    if "anyOf" in schema:
        return Markup(" or ").join(map(_kind, schema["anyOf"]))
    if "enum" in schema:
        return Markup(", ").join(map(_CODE.format, schema["enum"]))
    if schema.get("type") == "array":
        return Markup("list of {}").format(_kind(schema.get("items", {})))
    return escape(f"{schema.get('type', 'anything')}{_bounds(schema)}")


def _bounds(schema: Schema) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f", {least} to {most}"
    longest = schema.get("maxLength")
    return f", up to {longest} characters" if longest is not None else ""


def _marked(text: str) -> Markup:
    """Return a description with the parts between backticks as code."""
    parts = text.split("`")
    return Markup("").join(_CODE.format(part) if at % 2 else part for at, part in enumerate(parts))


def _list(words: str, items: Iterable[Markup]) -> Markup:
    shown = Markup("\n").join(map(_ITEM.format, items))
    return _LIST.format(words, shown) if shown else Markup("")
