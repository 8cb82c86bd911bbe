"""From a script or an expression to what it left: arrays, records and hidden storages."""

from __future__ import annotations

import builtins
import gc
import importlib.util
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stridetool.core.drivers.device import Device
from stridetool.core.facts import ArrayFacts, HiddenStorage
from stridetool.core.memory.registry import is_simulated
from stridetool.core.storage import Storage
from stridetool.core.trace import facts_of, trace
from stridetool.programs import script
from stridetool.programs.holders import foreign_arrays, holders
from stridetool.programs.interpreter import guarded, kept_interpreter
from stridetool.programs.recorder import KEPT_OPERATIONS, Recorder
from stridetool.sources.arrays import array_facts

_WORTH_A_WORD, _MAX_FOREIGN = 1024, 20  # bytes and number of foreign arrays that are named as hidden


@dataclass(frozen=True, slots=True)
class Run:
    """What one program did: its arrays by name, the tensors' serials, the recorded operations, how it ended."""

    arrays: tuple[ArrayFacts, ...]
    serials: Mapping[int, str]
    recorder: Recorder
    hidden: tuple[HiddenStorage, ...]
    outcome: script.Outcome
    simulated: bool  # whether an array lives on a GPU that is not there


@dataclass(frozen=True, slots=True)
class Options:
    """How programs are run."""

    alias_torch: bool = False
    quiet_stdout: bool = False
    kept_operations: int = KEPT_OPERATIONS
    arguments: tuple[str, ...] = ()
    expressions: tuple[str, ...] = field(default=())


def run_program(source: str | None, path: Path | None, options: Options) -> Run:
    """Run the script `source` (from `path`, or from stdin), then each expression in what it left.

    Without a script, expressions find the public names of the library. Raises InputError for a syntax error;
    what the program itself raises is in the outcome.
    """
    filename = str(path) if path is not None else script.STDIN_FILE
    codes = [script.compile_script(source, filename)] if source is not None else []
    codes += [script.compile_script(text, script.EXPRESSION_FILE, name_last=True) for text in options.expressions]
    recorder = Recorder(options.kept_operations)
    before = {storage.serial for storage in _live_storages()}
    with kept_interpreter(), script.as_main(path, list(options.arguments), _aliases(options)) as namespace:
        if source is None or options.expressions:
            namespace.update(_public_names(), **{k: v for k, v in _aliases(options).items() if "." not in k})
        builtin = set(namespace)
        outcome = script.Outcome(namespace, None, 0)
        with ExitStack() as stack:
            stack.enter_context(trace(recorder))
            foreign = _foreign_trace(codes, options, recorder, stack)
            for code in codes:
                outcome = script.execute(code, namespace, quiet_stdout=options.quiet_stdout)
                if outcome.failure is not None or outcome.exit_status:
                    break
        return _collect(namespace, builtin, recorder, before, outcome, foreign)


def _foreign_trace(
    codes: Sequence[types.CodeType], options: Options, recorder: Recorder, stack: ExitStack
) -> Callable[[Any], int] | None:
    """Where a program names torch and torch is installed, its calls are recorded too; gives their serials."""
    wanted = not options.alias_torch and any("torch" in code.co_names for code in codes)
    if not wanted or importlib.util.find_spec("torch") is None:
        return None
    from stridetool.programs.torch_trace import torch_trace

    return stack.enter_context(torch_trace(recorder))


def _collect(
    namespace: dict[str, Any],
    builtin: set[str],
    recorder: Recorder,
    before: set[int],
    outcome: script.Outcome,
    foreign: Callable[[Any], int] | None,
) -> Run:
    # A copy, because threads of the program may go on; names that are no text come from tricks with `globals()`.
    names = {name: value for name, value in namespace.copy().items() if type(name) is str}
    variables = {k: v for k, v in names.items() if k not in builtin and not k.startswith("__")}
    if "_" in variables:  # the value of -e comes last
        variables["_"] = variables.pop("_")
    arrays = [facts for name, value in variables.items() if (facts := guarded(array_facts, name, value, default=None))]
    # The first variable of a tensor names it: `y = x.contiguous()` may be x itself.
    first = dict(reversed(variables.items()))
    serials = {facts_of(value).tensor: name for name, value in first.items() if _is_ours(value)}
    if foreign is not None:
        import torch

        serials |= {foreign(value): name for name, value in first.items() if issubclass(type(value), torch.Tensor)}
    named = {value.untyped_storage().serial for value in variables.values() if _is_ours(value)}
    hidden = [weakref.ref(storage) for storage in _live_storages() if storage.serial not in before]
    found = (*_hidden(variables, hidden, named), *_foreign_hidden(variables, arrays))
    return Run(tuple(arrays), serials, recorder, found, outcome, any(map(_on_simulated, arrays)))


def _on_simulated(facts: ArrayFacts) -> bool:
    return facts.library == "stridetool" and is_simulated(Device.parse(facts.device))


def _is_ours(value: object) -> bool:
    from stridetool.core.tensor import Tensor

    return issubclass(type(value), Tensor)  # never value.__class__, which may be anything


def _hidden(
    variables: Mapping[str, Any], storages: list[weakref.ref[Storage]], named: set[int]
) -> Iterator[HiddenStorage]:
    """The storages that no variable names, with those who hold them; sizes are taken before a collection."""
    sizes = {}
    for ref in storages:
        storage = ref()
        if storage is not None and storage.serial not in named and storage.nbytes():
            sizes[storage.serial] = (ref, storage.nbytes(), str(storage.device))
        del storage
    if not sizes:
        return
    found = holders(variables, [ref for ref, _, _ in sizes.values()])
    for serial, (_, nbytes, device) in sizes.items():
        yield HiddenStorage(nbytes, device, found.get(serial, ()))


def _foreign_hidden(variables: Mapping[str, Any], arrays: Sequence[ArrayFacts]) -> list[HiddenStorage]:
    """Memory of NumPy and torch that no variable names but something leads to: the largest pieces first."""
    named = {facts.address for facts in arrays}
    found: dict[int, tuple[ArrayFacts, list[str]]] = {}
    for value, path in foreign_arrays(variables):
        facts = guarded(array_facts, path, value, default=None)
        if facts is not None and facts.address not in named and facts.storage_nbytes >= _WORTH_A_WORD:
            found.setdefault(facts.address, (facts, []))[1].append(path)
    largest = sorted(found.values(), key=lambda item: -item[0].storage_nbytes)[:_MAX_FOREIGN]
    return [HiddenStorage(facts.storage_nbytes, facts.device, tuple(paths[:3])) for facts, paths in largest]


def _live_storages() -> list[Storage]:
    """Every storage of this process; the collector knows them all, so none has to be registered."""
    return [value for value in gc.get_objects() if type(value) is Storage]


def _public_names() -> dict[str, Any]:
    """What an expression finds: the library's names, `st`, and `np`; Python's own `int` and `sum` stay Python's."""
    import numpy as np

    import stridetool

    names = [name for name in dir(stridetool) if not name.startswith("_") and not hasattr(builtins, name)]
    return {"st": stridetool, "np": np, **{name: getattr(stridetool, name) for name in names}}


def _aliases(options: Options) -> dict[str, types.ModuleType]:
    if not options.alias_torch:
        return {}
    import stridetool

    return {"torch": stridetool, "torch.cuda": stridetool.cuda}
