"""The OpenAPI description of the API, made from the types of the documents."""

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

DOCUMENTS: dict[str, type] = {
    "/api/cluster": ClusterDocument,
    "/api/queues": QueuesDocument,
    "/api/jobs": JobsDocument,
    "/api/decisions": DecisionsDocument,
}


def description() -> dict[str, Any]:
    """Return the whole description as a JSON object."""
    others = (JobDocument, Changes, CycleDocument, RecordedDocument, RoomDocument, Problem, Stamp)
    types = [*DOCUMENTS.values(), *others]
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": __version__,
            "description": "The state and the decisions of the scheduler, read-only.",
        },
        "security": [{"bearer": []}, {}],  # the local dashboard of a simulation requires no token
        "paths": {
            **{path: {"get": _get(path, kind)} for path, kind in DOCUMENTS.items()},
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


def _get(path: str, document: type) -> dict[str, Any]:
    """Describe the address of a document."""
    row = {"type": "integer", "minimum": 0}
    window = {name: row for name in ("waiting", "running", "finished", "count")}
    is_jobs = document is JobsDocument
    parameters = {**window, "find": _TEXT} if is_jobs else {"since": _TEXT}
    return {
        "operationId": path.rpartition("/")[2],
        "summary": (document.__doc__ or "").strip(),
        "parameters": [
            {"name": name, "in": "query", "schema": schema} for name, schema in parameters.items()
        ],
        "responses": {
            "200": _answer(document) if is_jobs else _answer(document, Changes),
            "304": {"description": "As the ETag in If-None-Match says."},
            **_PROBLEMS,
        },
    }


def _one(name: str, where: str, kind: str, document: type, operation: str = "") -> dict[str, Any]:
    """Describe an address that returns one of many documents, selected by a parameter."""
    parameter = {"name": name, "in": where, "required": True, "schema": {"type": kind}}
    return {
        "operationId": operation or document.__name__.removesuffix("Document").lower(),
        "summary": (document.__doc__ or "").strip(),
        "parameters": [parameter],
        "responses": {"200": _answer(document), "404": _answer(Problem), **_PROBLEMS},
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


def _answer(*documents: type) -> dict[str, Any]:
    schemas = [{"$ref": f"#/components/schemas/{kind.__name__}"} for kind in documents]
    return {
        "description": (documents[0].__doc__ or "").strip(),
        "content": {"application/json": {"schema": {"anyOf": schemas}}},
    }


_PROBLEMS = {status: _answer(Problem) for status in ("400", "401", "503")}
