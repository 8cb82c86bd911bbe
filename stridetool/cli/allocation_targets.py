"""The targets of `alloc-report`: snapshots, traces, messages and scripts, each told by its content."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stridetool.cli.options import PIPE, STDIN
from stridetool.cli.targets import Target, open_target
from stridetool.core.memory.oom_message import OomMessage
from stridetool.errors import InputError, UsageError
from stridetool.report.inspect import Source
from stridetool.sources.allocations import Allocations, is_allocations, read_allocations
from stridetool.sources.oom_message import MARK, MAX_TEXT, parse_message

_HEAD = 1 << 16


@dataclass(frozen=True, slots=True)
class AllocationTarget:
    """What was named: its source, what was read from it, or the script to run."""

    source: Source
    content: Allocations | None
    script: Target | None = None


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """A target as it was named, and how to open it. Opening raises InputError for bad files."""

    name: str
    open: Callable[[], AllocationTarget]

    def __str__(self) -> str:
        return STDIN if self.name == PIPE else self.name


def named_targets(targets: tuple[str, ...], message: str | None, stack: ExitStack) -> list[NamedTarget]:
    """All targets, and the message of `--message`; none is read yet. Raises UsageError when there is none."""
    named = [NamedTarget(text, partial(_open, text, stack)) for text in targets]
    if message is not None:
        named.append(NamedTarget("--message", partial(_message, message, stack)))
    if not named:
        raise UsageError("nothing to report", hint="name a snapshot, a trace or a script, or give --message TEXT")
    return named


def _message(text: str, stack: ExitStack) -> AllocationTarget:
    parsed: OomMessage = parse_message(_end_of(open_target(PIPE, stack).path) if text == PIPE else text)
    return AllocationTarget(Source("message", None), parsed)


def _end_of(path: Path) -> str:
    """The end of a log, where its last message is."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - MAX_TEXT))
        return file.read().decode("utf-8", "replace")


def _open(text: str, stack: ExitStack) -> AllocationTarget:
    target = open_target(text, stack)
    if _is_script(target):
        return AllocationTarget(Source("script", str(target)), None, target)
    kind, content = read_allocations(target.path, str(target))
    return AllocationTarget(Source(kind, str(target)), content)


def _is_script(target: Target) -> bool:
    if not target.is_script:
        return False
    with target.path.open("rb") as file:
        head = file.read(_HEAD)
    return not is_allocations(head) and not (target.name is not None and _is_log(head, target.path))


def _is_log(head: bytes, path: Path) -> bool:
    """Whether what came through the pipe is no script but what one has printed: with a message in it."""
    if MARK.encode() in head.lower():
        return True
    try:
        parse_message(_end_of(path))
    except InputError:
        return False
    return True
