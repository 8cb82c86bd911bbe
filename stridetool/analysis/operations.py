"""Records of the Trace key → the operations of a report, with names where there are any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stridetool.analysis.views import why_not_view
from stridetool.core.trace import Record, TensorFacts
from stridetool.errors import TensorError
from stridetool.report.inspect import LayoutRow, OperationError, OperationRow, ViewFailure


def operation_rows(
    records: Sequence[Record], names: Mapping[int, str], set_by: Mapping[int, str]
) -> Iterator[OperationRow]:
    """A row for each record. `names` are those of tensors by serial number; the others are numbered `%1`, `%2`, …

    `set_by` says, for the index of a failed record, which operation gave its input the layout that it has.
    """
    labels = _Labels(names)
    for index, record in enumerate(records):
        yield OperationRow(
            op=record.op,
            kind=record.kind,
            file=record.file,
            line=record.line,
            inputs=tuple(map(labels, record.inputs)),
            outputs=tuple(map(labels, record.outputs)),
            arguments=tuple(_written(value) for value in record.arguments if not _is_tensors(value)),
            input_layouts=tuple(map(_layout, record.inputs)),
            output_layouts=tuple(map(_layout, record.outputs)),
            copied=record.copied,
            copied_bytes=record.copied_bytes,
            strides_changed=record.strides_changed,
            offset_changed=record.offset_changed,
            shares_storage=record.shares_storage,
            kernel=record.copies[0].kernel if record.copies else None,
            error=_error(record, set_by.get(index)),
        )


class _Labels:
    """Tensor → its variable, else `%n` with n counting the unnamed ones in order of appearance."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._known = dict(names)
        self._unnamed = 0

    def __call__(self, facts: TensorFacts) -> str:
        label = self._known.get(facts.tensor)
        if label is None:
            self._unnamed += 1
            label = self._known[facts.tensor] = f"%{self._unnamed}"
        return label


def _is_tensors(argument: object) -> bool:
    """A sequence of tensors, of which a record keeps no more than the places."""
    return isinstance(argument, tuple) and len(argument) > 0 and all(item is ... for item in argument)


def _written(argument: object) -> str:
    """An argument as the script may have written it; a slice as in an index."""
    if isinstance(argument, slice):
        parts = [argument.start, argument.stop] + ([argument.step] if argument.step is not None else [])
        return ":".join("" if part is None else str(part) for part in parts)
    if isinstance(argument, tuple) and any(isinstance(item, slice) for item in argument):
        return ", ".join(map(_written, argument))
    return "..." if argument is ... else str(argument)


def _layout(facts: TensorFacts) -> LayoutRow:
    return LayoutRow(facts.layout.sizes, facts.layout.strides, facts.layout.offset, facts.dtype.name)


def _error(record: Record, set_by: str | None) -> OperationError | None:
    if record.error is None:
        return None
    error = record.error
    return OperationError(error.type, error.message, error.hint, _view_failure(record, set_by))


def _view_failure(record: Record, set_by: str | None) -> ViewFailure | None:
    """The anatomy of a view that does not fit; None when the record failed for another reason."""
    shape = _wanted_shape(record)
    if shape is None:
        return None
    source = record.inputs[0]
    try:
        return why_not_view(source.layout, shape, source.dtype.itemsize, set_by)
    except TensorError:  # the shape itself is wrong: another number of elements, two -1
        return None


def _wanted_shape(record: Record) -> tuple[int, ...] | None:
    """The shape that a failed `view` or `view_as` was asked for, as it was written."""
    if record.op == "view_as" and len(record.inputs) == 2:
        return record.inputs[1].layout.sizes
    if record.op != "view" or not record.inputs:
        return None
    given = record.arguments[0] if len(record.arguments) == 1 else record.arguments
    sizes = given if isinstance(given, tuple) else (given,)
    return sizes if all(type(size) is int for size in sizes) else None
