"""Records of the Trace key → the operations of a report, with names where there are any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stridetool.core.trace import Record, TensorFacts
from stridetool.report.inspect import LayoutRow, OperationError, OperationRow, ViewFailure

_VIEWS = frozenset(("view", "view_as", "unflatten"))


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
            file=record.file,
            line=record.line,
            inputs=tuple(map(labels, record.inputs)),
            outputs=tuple(map(labels, record.outputs)),
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


def _layout(facts: TensorFacts) -> LayoutRow:
    return LayoutRow(facts.layout.sizes, facts.layout.strides, facts.layout.offset, facts.dtype.name)


def _error(record: Record, set_by: str | None) -> OperationError | None:
    if record.error is None:
        return None
    error = record.error
    return OperationError(error.type, error.message, error.hint, _view_failure(record, set_by))
