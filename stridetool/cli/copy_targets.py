"""What `bench` is asked to copy: a standard case, a tensor of a file or of a script, or a shape from the options."""

from __future__ import annotations

import fnmatch
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from stridetool.bench.cases import Case, case_of, select, standard_cases
from stridetool.cli.options import PIPE
from stridetool.cli.targets import Target, open_target
from stridetool.errors import UsageError

_SEPARATOR = "::"


def cases_of(targets: Sequence[str], patterns: Sequence[str], *, quick: bool) -> tuple[Case, ...]:
    """The cases that arguments and `--case` name; all standard ones where nothing is named."""
    cases: list[Case] = []
    read = functools.cache(_all_tensors)  # a script that is named twice runs once
    for target in targets:
        cases += _tensors(target, read) if _is_file(target) else select(_known(target, quick), [target])
    if patterns:
        cases += select(_known(patterns[0], quick), patterns) if not cases else []
        cases = list(select(cases, patterns))
    return tuple(cases) if targets or patterns else standard_cases(quick=quick)


def case_from_options(shape: str, permute: str | None, strides: str | None, dtype: str) -> Case:
    """The case of `--shape` and its companions, numbers separated by commas. Raises UsageError for anything else."""
    return case_of(
        _integers("--shape", shape),
        None if permute is None else _integers("--permute", permute),
        None if strides is None else _integers("--strides", strides),
        dtype,
    )


def _known(name: str, quick: bool) -> tuple[Case, ...]:
    """The standard cases; the quick ones where they have the name as well."""
    small = standard_cases(quick=True)
    return small if quick and any(fnmatch.fnmatchcase(case.name, name) for case in small) else standard_cases()


def _is_file(target: str) -> bool:
    return target == PIPE or _SEPARATOR in target or Path(target).suffix != "" or os.path.exists(target)


def _tensors(target: str, read: Callable[[str], list[Case]]) -> list[Case]:
    """The tensors of `FILE::NAME` (NAME may be a glob), or the only one of `FILE`, named `FILE::NAME`."""
    path, separator, pattern = target.rpartition(_SEPARATOR)
    path, pattern = (path, pattern) if separator else (target, "*")
    cases = read(path)
    found = [case for case in cases if case.name == pattern] or [
        case for case in cases if fnmatch.fnmatchcase(case.name, pattern)
    ]
    names = ", ".join(case.name for case in cases[:20]) or "none"
    if not found:
        raise UsageError(f"cannot find tensor {pattern!r} in {path}", hint=f"there are: {names}")
    if not separator and len(found) > 1:
        raise UsageError(f"cannot tell which of {len(found)} tensors of {path}", hint=f"{path}::NAME, of: {names}")
    return [replace(case, name=f"{Path(path).name}{_SEPARATOR}{case.name}") for case in found]


def _all_tensors(path: str) -> list[Case]:
    with ExitStack() as stack:
        target = open_target(path, stack)
        with target.named():
            return list(_script_tensors(target) if target.is_script else _file_tensors(target.path))


def _script_tensors(target: Target) -> Iterator[Case]:
    from stridetool.programs.run import Options, run_program
    from stridetool.programs.script import read_script

    path = target.path if target.name is None else None
    run = run_program(read_script(target.path, target.name), path, Options(quiet_stdout=True))
    complaint = run.outcome.complaint(str(target))
    if complaint is not None and not run.arrays:
        raise complaint
    for facts in run.arrays:
        yield Case(facts.name, facts.layout, facts.dtype, facts.itemsize, facts.unit)


def _file_tensors(path: Path) -> Iterator[Case]:
    from stridetool.sources import open_tensor_file

    for tensor in open_tensor_file(path).tensors:
        if tensor.itemsize and "pickled" not in tensor.flags:
            yield Case(tensor.name, tensor.layout, tensor.dtype, tensor.itemsize, tensor.itemsize)


def _integers(option: str, text: str) -> list[int]:
    """`8,64,128` → [8, 64, 128]; an empty text is a scalar."""
    try:
        return [int(part) for part in text.split(",")] if text.strip() else []
    except ValueError:
        raise UsageError(
            f"cannot read {option} {text!r}", hint="whole numbers with commas between, like 8,64,128"
        ) from None
