"""What `alloc-report` does with its options: targets to reports, and the way these are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext

import msgspec
import typer

from stridetool.analysis.conditions import Conditions
from stridetool.cli.allocation_document import Refused, document_of
from stridetool.cli.allocation_films import PICTURES, Filmed, filmed_parts, shown
from stridetool.cli.allocation_parts import parts_of
from stridetool.cli.allocation_request import Request, conditions_of
from stridetool.cli.allocation_targets import AllocationTarget, NamedTarget, named_targets
from stridetool.cli.allocation_tries import tried_part
from stridetool.cli.output import Output, say_error, terminal_width
from stridetool.cli.progress import announced
from stridetool.errors import InputError, ProgramError, UsageError
from stridetool.report.alloc import AllocReport
from stridetool.report.documents import to_json
from stridetool.report.envelope import Envelope


def run_alloc_report(request: Request, where: Output) -> None:
    """Report what can be read, then end with 2 when a target could not be, else with 1 when a script failed for
    another reason than memory. One bad target alone is its error."""
    conditions = conditions_of(request)
    with ExitStack() as stack:
        named = named_targets(request.targets, request.message, stack)
        if request.events:
            if len(named) != 1:
                raise UsageError("--events is for one target")
            where.write(_event_lines(named[0].open(), request, conditions))
            return
        filmed, refused = _gathered(named, request, conditions, where)
    parts = [part for part, _ in filmed]
    if parts:
        document = document_of(parts, refused, request, conditions)
        where.write(_pictures(document, filmed, where) if where.format in PICTURES else _text(document, where))
    failures = [part.failure for part in parts if part.failure is not None] + [error for _, error in refused]
    for failure in failures:
        say_error(failure.message, failure.hint)
    if failures:
        raise typer.Exit(max(failure.exit_code for failure in failures))


def _gathered(
    named: Sequence[NamedTarget], request: Request, conditions: Conditions, where: Output
) -> tuple[list[Filmed], list[Refused]]:
    """The parts of all targets, and the targets that give none. One target alone raises its error."""
    quiet = where.path is None and where.format != "text"
    filmed: list[Filmed] = []
    refused: list[Refused] = []
    for one in named:
        try:
            found = _parts(one, request, conditions, where.format in PICTURES, quiet)
        except (InputError, ProgramError) as error:
            if len(named) == 1:
                raise
            refused.append((str(one), _naming(str(one), error)))
            continue
        filmed += [(tried_part(part, request, quiet), film) for part, film in found]
    return filmed, refused


def _parts(one: NamedTarget, request: Request, conditions: Conditions, films: bool, quiet: bool) -> list[Filmed]:
    with announced(f"reading {one}", quiet=quiet):
        target = one.open()
    # A script is left alone: beside one that forks or counts its threads nothing may run.
    replaying = nullcontext() if target.script is not None else announced(f"replaying {one}", quiet=quiet)
    with replaying:
        if films:
            return list(filmed_parts(target, request, conditions))
        return [(part, None) for part in parts_of(target, request, conditions, None)]


def _naming(name: str, error: InputError | ProgramError) -> InputError | ProgramError:
    """The error itself where it names its target, else one that does."""
    if name in error.message:
        return error
    return type(error)(f"cannot report on {name}: {error.message}", hint=error.hint)


def _event_lines(target: AllocationTarget, request: Request, conditions: Conditions) -> Iterator[str]:
    """A line per event, and last the envelope."""
    lines: list[bytes] = []
    encode = msgspec.json.Encoder().encode
    parts = list(parts_of(target, request, conditions, lambda line: lines.append(encode(line))))
    yield from (line.decode() + "\n" for line in lines)
    parts = [tried_part(part, request, quiet=True) for part in parts]
    document = msgspec.to_builtins(document_of(parts, (), request, conditions))
    yield encode({"type": "summary", **document}).decode() + "\n"


def _pictures(document: Envelope[AllocReport], filmed: Sequence[Filmed], where: Output) -> Iterable[str]:
    """The document as a drawing or a page, or the histories for a trace viewer."""
    if where.format == "perfetto":
        from stridetool.render.perfetto import trace_events

        return trace_events(film for _, film in filmed if film is not None)
    from stridetool.render.alloc_page import alloc_page, alloc_svg

    drawn = [one for part, film in filmed for one in shown(part, film)]
    return alloc_svg(drawn) if where.format == "svg" else alloc_page(document, drawn)


def _text(document: Envelope[AllocReport], where: Output) -> Iterable[str]:
    """The document in the chosen format, in chunks."""
    if where.format == "json":
        return [to_json(document)]
    from stridetool.cli.present import text_of
    from stridetool.render.alloc_text import alloc_blocks

    return text_of("stride-tool alloc-report", alloc_blocks(document, terminal_width()), where)
