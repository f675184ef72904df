"""The API as OpenAPI describes it, from the types of the documents."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass import __version__
from windlass.web.documents import (
    ClusterDocument,
    CycleDocument,
    DecisionsDocument,
    JobsDocument,
    Problem,
    QueuesDocument,
    RoomDocument,
    Stamp,
)

PATHS: dict[str, type] = {
    "/api/cluster": ClusterDocument,
    "/api/queues": QueuesDocument,
    "/api/jobs": JobsDocument,
    "/api/decisions": DecisionsDocument,
}


def description() -> dict[str, Any]:
    """The whole description."""
    types = [*PATHS.values(), CycleDocument, RoomDocument, Problem, Stamp]
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": __version__,
            "description": "What the scheduler knows and has decided. Nothing can be changed here.",
        },
        "paths": {
            **{path: {"get": _get(path, of)} for path, of in PATHS.items()},
            "/api/decisions/{cycle}": {"get": _one("cycle", "path", "integer", CycleDocument)},
            "/api/room": {"get": _one("gang", "query", "string", RoomDocument)},
            "/api/events": {"get": _events()},
        },
        "components": {"schemas": schemas},
    }


def _get(path: str, of: type) -> dict[str, Any]:
    return {
        "operationId": path.rpartition("/")[2],
        "summary": (of.__doc__ or "").strip(),
        "responses": {
            "200": _answer(of),
            "304": {"description": "As the ETag in If-None-Match says."},
            "503": _answer(Problem),
        },
    }


def _one(name: str, where: str, kind: str, of: type) -> dict[str, Any]:
    """One of many, by a parameter."""
    by = {"name": name, "in": where, "required": True, "schema": {"type": kind}}
    return {
        "operationId": of.__name__.removesuffix("Document").lower(),
        "summary": (of.__doc__ or "").strip(),
        "parameters": [by],
        "responses": {"200": _answer(of), "404": _answer(Problem)},
    }


def _events() -> dict[str, Any]:
    stream = {"text/event-stream": {"schema": {"$ref": "#/components/schemas/Stamp"}}}
    return {
        "operationId": "events",
        "summary": "A stamp now, and again whenever the documents have changed.",
        "responses": {"200": {"description": "Server-sent events.", "content": stream}},
    }


def _answer(of: type) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{of.__name__}"}
    return {
        "description": (of.__doc__ or "").strip(),
        "content": {"application/json": {"schema": schema}},
    }
