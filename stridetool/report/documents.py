"""Documents to JSON and back, and their JSON Schemas: one registry of names, no hand-written encoder."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec

from stridetool.errors import InputError, UsageError
from stridetool.report.envelope import SCHEMA_VERSION, Envelope

# Name of the schema → (module, class) of its report; loaded when asked for.
_REPORTS = {
    "inspect": ("stridetool.report.inspect", "InspectReport"),
    "bench": ("stridetool.report.bench", "BenchReport"),
    "compare": ("stridetool.report.compare", "CompareReport"),
    "alloc-report": ("stridetool.report.alloc", "AllocReport"),
    "devices": ("stridetool.report.devices", "DevicesReport"),
}


def names() -> tuple[str, ...]:
    """The names of all schemas."""
    return tuple(_REPORTS)


def document_type(name: str) -> Any:
    """`Envelope[Report]` of a schema name. Raises UsageError when there is none."""
    if name not in _REPORTS:
        raise UsageError(f"cannot find schema {name!r}", hint=f"there are: {', '.join(_REPORTS)}")
    module, report = _REPORTS[name]
    return Envelope[getattr(importlib.import_module(module), report)]  # type: ignore[misc]


def to_json(document: Envelope[Any]) -> str:
    """The document as indented JSON with a final newline: the same bytes on a terminal and in a pipe."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def from_json(data: bytes, where: str) -> Envelope[Any]:
    """The document in `data`. Raises InputError when it is none of ours, or of another version."""
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"cannot read {where}: {error}", hint="a JSON that --json wrote is wanted") from error
    name = head.schema.removeprefix("stride-tool/")
    if name not in _REPORTS:
        raise InputError(f"cannot read {where}: unknown schema {head.schema!r}")
    if head.schema_version != SCHEMA_VERSION:
        raise InputError(f"cannot read {where}: schema version {head.schema_version}, not {SCHEMA_VERSION}")
    try:
        return msgspec.json.decode(data, type=document_type(name))  # type: ignore[no-any-return]
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"cannot read {where}: {error}") from error


def json_schema(name: str) -> str:
    """The JSON Schema (2020-12) of the documents called `name`."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(document_type(name))), indent=2).decode() + "\n"


class _Head(msgspec.Struct):
    schema: str
    schema_version: int
