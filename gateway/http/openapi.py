"""GET /openapi.json, and a page for people at /docs that loads nothing from other servers.

Rule: both are made once, from the table of routes and from the types that read the bodies.
"""

import html
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.http.routes import RouteSpec
from ostler.wire.json import JsonObject

REF = "#/components/schemas/{name}"
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
QUERIES: dict[str, JsonObject] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
    "order": {"type": "string", "enum": ["asc", "desc"]},
    "after": {"type": "string"},
    "stream": {"type": "boolean"},
    "offset": {"type": "integer", "minimum": 0},
    "platform": {"type": "string"},
    "chat": {"type": "string"},
    "live": {"type": "boolean"},
    "q": {"type": "string"},
    "starting_after": {"type": "integer"},
    "key": {"type": "string"},
    "cwd": {"type": "string"},
    "erase": {"type": "boolean"},
}
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>ostler</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 16px/1.5 system-ui; max-width: 56rem; margin: 2rem auto; padding: 0 1rem }}
code {{ background: #8882; padding: .1em .3em }}
details {{ border-bottom: 1px solid #8884; padding: .5rem 0 }}
summary {{ cursor: pointer }}
pre {{ overflow: auto; background: #8881; padding: 1rem }}
</style>
<h1>ostler</h1>
<p>Coding agents behind the OpenAI API. For programs: <a href="/openapi.json">openapi.json</a>.</p>
{rows}</html>"""


class Documents:
    """Both documents. They are made at the first request: most gateways never get one, and building them would slow
    every start."""

    def __init__(self, rows: Sequence[RouteSpec], version: str) -> None:
        self._rows, self._version = rows, version

    @cached_property
    def _document(self) -> JsonObject:
        return openapi(self._rows, self._version)

    @cached_property
    def _json(self) -> bytes:
        return orjson.dumps(self._document)

    @cached_property
    def _page(self) -> bytes:
        return page(self._rows, self._document).encode()

    async def openapi(self, _request: Request) -> Response:
        """Serve GET /openapi.json: the OpenAPI document."""
        return Response(self._json, media_type="application/json")

    async def docs(self, _request: Request) -> Response:
        """Serve GET /docs: the page for people."""
        return Response(self._page, media_type="text/html; charset=utf-8")


def openapi(rows: Sequence[RouteSpec], version: str) -> JsonObject:
    """Return the OpenAPI document of these routes."""
    kinds = [row.body for row in rows if row.body is not None]
    _, schemas = msgspec.json.schema_components(kinds, ref_template=REF)
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        path = row.bare_path
        paths.setdefault(path, {})[row.method.lower()] = operation(row)
    return {
        "openapi": "3.1.0",
        "info": {"title": "ostler", "version": version, "description": "Coding agents behind the OpenAI API."},
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Error": ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def operation(row: RouteSpec) -> JsonObject:
    """Return the OpenAPI operation of one route."""
    wrong = {"description": "what is wrong and what to do", "content": json_of({"$ref": REF.format(name="Error")})}
    said: JsonObject = {"type": "object"} if row.answers == "application/json" else {"type": "string"}
    described: JsonObject = {
        "summary": row.summary,
        "operationId": operation_id(row),
        "parameters": [*path_parameters(row.path), *query_parameters(row.query)],
        "responses": {"200": {"description": "done", "content": {row.answers: {"schema": said}}}, "default": wrong},
    }
    if row.body is not None:
        described["requestBody"] = {"required": True, "content": json_of({"$ref": REF.format(name=row.body.__name__)})}
        if "stream" in row.body.__struct_fields__:
            described["responses"]["200"]["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    return described if row.open else {**described, "security": [{"key": []}, {}]}


def operation_id(row: RouteSpec) -> str:
    """Return the operation's id, as in `get_v1_responses_id`."""
    return re.sub(r"\W+", "_", f"{row.method.lower()}{row.bare_path}").strip("_")


def path_parameters(path: str) -> list[JsonObject]:
    """Return the parameters in the path."""
    names = re.findall(r"{(\w+)", path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def query_parameters(names: Sequence[str]) -> list[JsonObject]:
    """Return the parameters of the query."""
    return [{"name": name, "in": "query", "schema": QUERIES[name]} for name in names]


def json_of(schema: JsonObject) -> JsonObject:
    """Return content of type JSON with this schema."""
    return {"application/json": {"schema": schema}}


def page(rows: Sequence[RouteSpec], document: JsonObject) -> str:
    """Return the HTML page of all routes."""
    return PAGE.format(rows="\n".join(section(row, document) for row in rows))


def section(row: RouteSpec, document: JsonObject) -> str:
    """Return the HTML of one route, with its body's schema to unfold."""
    path = row.bare_path
    head = f"<code>{row.method} {html.escape(path)}</code> {html.escape(row.summary)}"
    if row.body is None:
        return f"<details><summary>{head}</summary></details>"
    schema = orjson.dumps(document["components"]["schemas"][row.body.__name__], option=orjson.OPT_INDENT_2).decode()
    return f"<details><summary>{head}</summary><pre>{html.escape(schema)}</pre></details>"
