"""The API as OpenAPI describes it, from the types of the documents."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass import __version__
from windlass.web.schema.cycles import CycleDocument, DecisionsDocument, RecordedDocument
from windlass.web.schema.documents import (
    Changes,
    ClusterDocument,
    JobDocument,
    JobsDocument,
    Problem,
    QueuesDocument,
    RoomDocument,
    Stamp,
)

_TEXT = {"type": "string"}

PATHS: dict[str, type] = {
    "/api/cluster": ClusterDocument,
    "/api/queues": QueuesDocument,
    "/api/jobs": JobsDocument,
    "/api/decisions": DecisionsDocument,
}


def description() -> dict[str, Any]:
    """The whole description."""
    others = (JobDocument, Changes, CycleDocument, RecordedDocument, RoomDocument, Problem, Stamp)
    types = [*PATHS.values(), *others]
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": __version__,
            "description": "What the scheduler knows and has decided. Nothing can be changed here.",
        },
        "security": [{"bearer": []}, {}],  # the embedded cluster asks for no token
        "paths": {
            **{path: {"get": _get(path, of)} for path, of in PATHS.items()},
            "/api/decisions/{cycle}": {"get": _one("cycle", "path", "integer", CycleDocument)},
            "/api/job": {"get": _one("gang", "query", "string", JobDocument)},
            "/api/recorded": {"get": _recorded()},
            "/api/recorded/cycle": {
                "get": _one("key", "query", "string", CycleDocument, "recorded_cycle")
            },
            "/api/room": {"get": _one("gang", "query", "string", RoomDocument)},
            "/api/events": {"get": _events()},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _get(path: str, of: type) -> dict[str, Any]:
    asked = {"type": "integer", "minimum": 0}
    windows = {name: asked for name in ("waiting", "running", "finished", "count")}
    may = {**windows, "find": {"type": "string"}} if of is JobsDocument else {"since": _TEXT}
    return {
        "operationId": path.rpartition("/")[2],
        "summary": (of.__doc__ or "").strip(),
        "parameters": [{"name": name, "in": "query", "schema": each} for name, each in may.items()],
        "responses": {
            "200": _answer(of) if of is JobsDocument else _answer(of, Changes),
            "304": {"description": "As the ETag in If-None-Match says."},
            **_PROBLEMS,
        },
    }


def _one(name: str, where: str, kind: str, of: type, called: str = "") -> dict[str, Any]:
    """One of many, by a parameter."""
    by = {"name": name, "in": where, "required": True, "schema": {"type": kind}}
    return {
        "operationId": called or of.__name__.removesuffix("Document").lower(),
        "summary": (of.__doc__ or "").strip(),
        "parameters": [by],
        "responses": {"200": _answer(of), "404": _answer(Problem), **_PROBLEMS},
    }


def _recorded() -> dict[str, Any]:
    second = {"type": "integer", "minimum": 0}
    return {
        "operationId": "recorded",
        "summary": (RecordedDocument.__doc__ or "").strip(),
        "parameters": [
            {"name": name, "in": "query", "schema": second} for name in ("since", "until")
        ],
        "responses": {
            "200": _answer(RecordedDocument),
            "403": _answer(Problem),
            "404": _answer(Problem),
            **_PROBLEMS,
        },
    }


def _events() -> dict[str, Any]:
    stream = {"text/event-stream": {"schema": {"$ref": "#/components/schemas/Stamp"}}}
    return {
        "operationId": "events",
        "summary": "A stamp now, and again whenever the documents have changed.",
        "responses": {"200": {"description": "Server-sent events.", "content": stream}},
    }


def _answer(*of: type) -> dict[str, Any]:
    schemas = [{"$ref": f"#/components/schemas/{each.__name__}"} for each in of]
    return {
        "description": (of[0].__doc__ or "").strip(),
        "content": {"application/json": {"schema": {"anyOf": schemas}}},
    }


_PROBLEMS = {status: _answer(Problem) for status in ("400", "401", "503")}
