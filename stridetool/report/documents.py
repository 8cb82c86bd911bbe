"""Documents to JSON and back, and their JSON Schemas: one registry of names, no hand-written encoder."""

from __future__ import annotations

import importlib
import re
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


# Control characters of 8-bit terminals, and those that turn or hide the text around them.
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


def names() -> tuple[str, ...]:
    """The names of all schemas."""
    return tuple(_REPORTS)


def document_type(name: str) -> Any:
    """`Envelope[Report]` of a schema name. Raises UsageError when there is none."""
    if name not in _REPORTS:
        raise UsageError(f"cannot find schema {name!r}", hint=f"there are: {', '.join(_REPORTS)}")
    module, report = _REPORTS[name]
    return Envelope[getattr(importlib.import_module(module), report)]  # type: ignore[misc]  # a type made of a name


def to_json(document: Envelope[Any]) -> str:
    """The document as indented JSON with a final newline: the same bytes on a terminal and in a pipe."""
    return msgspec.json.format(encoded(document), indent=2).decode() + "\n"


def encoded(value: Any) -> bytes:
    """`value` as JSON on one line. Halves of surrogate pairs, which no UTF-8 can hold, are spelled out, and what
    could act on a terminal stands as an escape.
    """
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_without_surrogates(msgspec.to_builtins(value)))
    if data.isascii():
        return data
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", data.decode()).encode()


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value


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
        document: Envelope[Any] = msgspec.json.decode(data, type=document_type(name))
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"cannot read {where}: {error}") from error
    return document


def json_schema(name: str) -> str:
    """The JSON Schema (2020-12) of the documents called `name`."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(document_type(name))), indent=2).decode() + "\n"


class _Head(msgspec.Struct):
    schema: str
    schema_version: int
