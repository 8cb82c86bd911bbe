"""What `inspect` does with its options: targets to reports, one report out of them, and the way it is written."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
import typer

from stridetool.cli.output import Output, say, say_error, terminal_width
from stridetool.cli.targets import Target, open_target
from stridetool.errors import ProgramError, UsageError
from stridetool.programs.streams import stdout_to_stderr
from stridetool.report.documents import to_json
from stridetool.report.envelope import Envelope, Finding, envelope
from stridetool.report.inspect import InspectReport, Source

if TYPE_CHECKING:
    from stridetool.core.tensor_file import TensorFile

FAILED = 1
_LABELS = 30  # columns that a strip leaves for names


@dataclass(frozen=True, slots=True)
class Inspection:
    """The options of `inspect`."""

    targets: tuple[str, ...] = ()
    expressions: tuple[str, ...] = ()
    alias_torch: bool = False
    tensors: tuple[str, ...] = ()
    table: bool = False
    copies_only: bool = False
    fail_on: tuple[str, ...] = ()
    arguments: str = ""
    ascii_only: bool = False
    sort: str | None = None
    top: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One target's share of the report; `failure` is what to say on stderr when its program did not end well."""

    report: InspectReport
    findings: tuple[Finding, ...]
    failure: ProgramError | None = None


def run_inspection(request: Inspection, where: Output) -> None:
    """Inspect, write, and end with the exit code that the findings and the scripts ask for."""
    from stridetool.analysis.access import with_access
    from stridetool.analysis.arrange import arranged
    from stridetool.analysis.findings import fails
    from stridetool.analysis.merge import merged
    from stridetool.analysis.pictures import with_file_pictures

    cells = 64 if where.format == "json" else max(16, min(terminal_width(), 200) - _LABELS)
    with ExitStack() as stack:
        if _is_for_programs(where):  # until the end: threads of a script may go on printing
            stack.enter_context(stdout_to_stderr())
        parts = list(_parts(request, where, cells, stack))
        report = arranged(
            merged([part.report for part in parts]), sort=request.sort, top=request.top, copies_only=request.copies_only
        )
        findings = tuple(finding for part in parts for finding in part.findings)
        report = with_file_pictures(with_access(report), cells)
        where.write(_text(envelope("inspect", report, findings), request, where))
    failures = [part.failure for part in parts if part.failure is not None]
    for failure in failures:
        say_error(failure.message, failure.hint)
    stopped = [condition for condition in request.fail_on if fails(condition, report, findings)]
    for condition in stopped:
        say(f"stride-tool: --fail-on {condition}: found")
    if failures or stopped:
        raise typer.Exit(FAILED)


def _parts(request: Inspection, where: Output, cells: int, stack: ExitStack) -> Iterator[Part]:
    if not request.targets and not request.expressions:
        raise UsageError("nothing to inspect", hint="name a script or a file, or give an expression with -e")
    targets = [open_target(text, stack) for text in request.targets]
    files = [target for target in targets if not target.is_script]
    first_storage = 0
    if files:
        part = _file_part(files, request, cells)
        # Of files only some storages may be listed, under the numbers that they have among all.
        first_storage = max((int(row.id[1:]) + 1 for row in part.report.storages), default=0)
        yield part
    scripts: list[Target | None] = [target for target in targets if target.is_script]
    for script in scripts or ([None] if request.expressions else []):
        part = _program_part(script, request, where, cells, first_storage)
        first_storage += len(part.report.storages)
        yield part


def _file_part(targets: list[Target], request: Inspection, cells: int) -> Part:
    from stridetool.analysis.files import file_report

    files = [file for target in targets for file in _tensor_files(target)]
    report, findings = file_report(files, tensors=request.tensors, cells=cells)
    return Part(report, tuple(findings))


def _tensor_files(target: Target) -> Iterator[TensorFile]:
    """The tensor files of one target; what came through a pipe goes by that name."""
    from stridetool.sources import open_tensor_files

    with target.named():
        for file in open_tensor_files(str(target.path), _progress()):
            yield file if target.name is None else msgspec.structs.replace(file, path=target.name)


def _progress() -> Callable[[int, int, str], None]:
    """Says on stderr which of many files is read, once that has taken a second."""
    started = last = time.monotonic()

    def tell(done: int, count: int, path: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - started > 1 and now - last > 1:
            last = now
            say(f"reading {done + 1} of {count} files: {path}")

    return tell


def _program_part(script: Target | None, request: Inspection, where: Output, cells: int, first_storage: int) -> Part:
    """Run one script (or the expressions alone) and describe what it left."""
    from stridetool.analysis.programs import program_report
    from stridetool.analysis.selection import select
    from stridetool.programs.run import Options, run_program
    from stridetool.programs.script import read_script

    options = Options(
        alias_torch=request.alias_torch,
        quiet_stdout=_is_for_programs(where),
        arguments=_arguments(request.arguments),
        expressions=request.expressions,
        **({} if request.top is None else {"kept_operations": request.top}),
    )
    text = read_script(script.path, script.name) if script is not None else None
    run = run_program(text, script.path if script is not None and script.name is None else None, options)
    source = Source("script", str(script)) if script is not None else Source("expression", None)
    recorder = run.recorder
    report, findings = program_report(
        source,
        select(run.arrays, request.tensors) if request.tensors else run.arrays,
        run.hidden,
        recorder.records,
        names=run.serials,
        set_by=recorder.set_by,
        operations=recorder.total,
        copied_bytes=recorder.copied_bytes,
        simulated=run.simulated,
        cells=cells,
        first_storage=first_storage,
    )
    return Part(report, findings, run.outcome.complaint(str(script or "the expression")))


def _is_for_programs(where: Output) -> bool:
    """Whether stdout carries a document with which no print of a script may mix."""
    return where.format != "text" and where.path is None


def _arguments(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"cannot read --args {text!r}: {error}", hint="quote it as a shell command") from error


def _table(document: Envelope[InspectReport], request: Inspection, where: Output) -> Iterator[str]:
    """The table of elements, streamed: its first line does not wait for the last."""
    from stridetool.analysis.index_table import index_table
    from stridetool.render.index_table import table_json, table_text

    rows = islice(index_table(document.report.tensors), None if request.top is None else min(request.top, sys.maxsize))
    return table_text(rows) if where.format == "text" else table_json(rows)


def _text(document: Envelope[InspectReport], request: Inspection, where: Output) -> Iterable[str]:
    """The document in the chosen format, in chunks."""
    if request.table:
        return _table(document, request, where)
    if where.format == "json":
        return [to_json(document)]
    if where.format == "svg":
        from stridetool.render.svg import inspect_svg

        return inspect_svg(document)
    if where.format == "html":
        from stridetool.render.inspect_page import inspect_page

        return inspect_page(document)
    from stridetool.cli.present import text_of
    from stridetool.render.blocks import ascii_blocks
    from stridetool.render.inspect_text import inspect_blocks

    blocks = inspect_blocks(document, width=terminal_width(), details=bool(request.tensors))
    if request.ascii_only:
        blocks = ascii_blocks(blocks)
    return text_of("stride-tool inspect", blocks, where)
