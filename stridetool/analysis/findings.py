"""What is worth saying about the layout of tensors and the operations of a script, as data with codes.

Each rule looks at a finished report and yields findings; `fails` says whether they stop a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.analysis.wording import some
from stridetool.report.envelope import Finding
from stridetool.report.inspect import InspectReport, OperationRow, TensorRow
from stridetool.units import format_bytes, format_share

WASTE_SHARE, WASTE_BYTES = 0.5, 4096  # below either, a view that keeps bytes alive is not worth a word
VECTOR_BYTES = 16
EXPANDED = 2  # logical bytes over stored bytes from which a copy would blow up

# Operators that give a view when they can, so that their copy is a surprise. clone() says what it does.
_MAY_VIEW = frozenset(("reshape", "reshape_as", "flatten", "ravel", "contiguous", "to"))
_METADATA = frozenset(
    ("as_strided_", "detach_", "requires_grad_", "resize_", "set_", "squeeze_", "swapaxes_", "swapdims_", "t_",
     "transpose_", "unsqueeze_")
)  # fmt: skip
_FAIL_CODES = {
    "overlap": frozenset(("overlap", "overlapping-write")),
    "misaligned": frozenset(("misaligned",)),
    "waste": frozenset(("storage-waste",)),
}


def inspect_findings(report: InspectReport) -> tuple[Finding, ...]:
    """All findings on a report, in the order of the rules."""
    return tuple(finding for rule in _RULES for finding in rule(report))


def fails(condition: str, report: InspectReport, findings: Sequence[Finding]) -> bool:
    """Whether `--fail-on condition` says no: `copy` for any copied byte, else by the codes of the findings."""
    if condition == "copy":
        return report.copied_bytes > 0
    return any(finding.code in _FAIL_CODES[condition] for finding in findings)


def _simulation(report: InspectReport) -> Iterator[Finding]:
    if report.simulated:
        message = "no GPU is reachable: cuda is simulated, with addresses and a capacity, and bytes on the host"
        yield Finding("simulated", "info", message)


def _impossible_views(report: InspectReport) -> Iterator[Finding]:
    for operation in report.operations:
        if operation.error is None or operation.error.why is None:
            continue
        why = operation.error.why
        left, right = why.boundary
        setter = f", set by {why.set_by}" if why.set_by else ""
        yield Finding(
            "impossible-view",
            "warning",
            f"{operation.op} cannot merge dimensions {left} and {right}: stride[{left}] must be "
            f"{why.stride_needed}, it is {why.stride_found}{setter}",
            operation.place,
            "; or ".join(why.remedies) or None,
        )


def _hidden_copies(report: InspectReport) -> Iterator[Finding]:
    for operation in report.operations:
        if not operation.copied or operation.op not in _MAY_VIEW or not operation.copied_bytes:
            continue
        source, result = (", ".join(operation.inputs[:1]) or "its input"), ", ".join(operation.outputs) or "the result"
        yield Finding(
            "hidden-copy",
            "warning",
            f"{operation.op} copied {format_bytes(operation.copied_bytes)} into a storage of its own: writes to "
            f"{result} do not reach {source}",
            operation.place,
            _why_copied(operation),
        )


def _why_copied(operation: OperationRow) -> str | None:
    if not operation.input_layouts:
        return None
    before = operation.input_layouts[0]
    if operation.op in ("contiguous", "to"):
        return f"strides were {before.strides}; keep the order that is wanted from the start, or copy once"
    return f"sizes {before.sizes} with strides {before.strides} do not merge; view() would have said so"


def _overlapping_writes(report: InspectReport) -> Iterator[Finding]:
    overlapping = {tensor.name for tensor in report.tensors if tensor.has_internal_overlap}
    for operation in report.operations:
        if _writes(operation.op) and operation.error is None and overlapping.intersection(operation.inputs[:1]):
            yield Finding(
                "overlapping-write",
                "warning",
                f"{operation.op} wrote to {operation.inputs[0]}, whose elements share memory: the result depends on "
                "the order of the writes",
                operation.place,
                "clone() the tensor before writing",
            )


def _writes(op: str) -> bool:
    """Whether an operator writes elements of its first input."""
    return op == "__setitem__" or (op.endswith("_") and not op.endswith("__") and op not in _METADATA)


def _overlaps(report: InspectReport) -> Iterator[Finding]:
    for tensor in report.tensors:
        if not tensor.has_internal_overlap or not tensor.reached_bytes:
            continue
        times = tensor.nbytes / tensor.reached_bytes
        expanded = times >= EXPANDED and any(s == 0 < n - 1 for n, s in zip(tensor.sizes, tensor.strides, strict=True))
        yield Finding(
            "expanded" if expanded else "overlap",
            "info" if expanded else "warning",
            f"{tensor.name}: {tensor.numel:,} elements over {tensor.reached_bytes // tensor.itemsize:,} stored ones "
            f"({times:.3g}×): one write changes several",
            None,
            f"contiguous() would allocate {format_bytes(tensor.nbytes)} for {format_bytes(tensor.reached_bytes)}",
        )


def _waste(report: InspectReport) -> Iterator[Finding]:
    for storage in report.storages:
        if storage.reached_bytes is None or not storage.tensors:
            continue
        lost = storage.nbytes - storage.reached_bytes
        if lost < WASTE_BYTES or lost < WASTE_SHARE * storage.nbytes:
            continue
        s = "s" if len(storage.tensors) == 1 else ""
        yield Finding(
            "storage-waste",
            "warning",
            f"{some(storage.tensors)} keep{s} {format_bytes(storage.nbytes)} alive and reach{'es' if s else ''} "
            f"{format_bytes(storage.reached_bytes)} of it: {format_share(lost, storage.nbytes)} of storage "
            f"{storage.id} is reached by no tensor",
            None,
            f"clone() before keeping or saving it: {format_bytes(storage.reached_bytes)} instead",
        )


def _misaligned(report: InspectReport) -> Iterator[Finding]:
    for tensor in report.tensors:
        if not tensor.is_contiguous or tensor.data_ptr is None or tensor.nbytes < VECTOR_BYTES:
            continue
        past = int(tensor.data_ptr, 16) % VECTOR_BYTES
        if past:
            yield Finding(
                "misaligned",
                "warning",
                f"{tensor.name} is contiguous, but its first byte is {past} B past a multiple of {VECTOR_BYTES}: "
                "vector loads must be split, and some kernels refuse it",
                None,
                "clone() gives an aligned start; or slice where offset × itemsize is a multiple of 16",
            )


def _memory_formats(report: InspectReport) -> Iterator[Finding]:
    for tensor in report.tensors:
        if tensor.numel == 0 or len(tensor.sizes) not in (4, 5):
            continue
        treated = tensor.suggested_memory_format
        if "contiguous_format" in tensor.memory_formats and len(tensor.memory_formats) > 1:
            text = f"is both contiguous and {tensor.memory_formats[-1]}, since some sizes are 1: torch treats it as "
            yield Finding("ambiguous-format", "info", f"{tensor.name} {text}{treated}", None, _format_reason(tensor))
        elif tensor.memory_formats and treated not in tensor.memory_formats:
            text = f"has the {tensor.memory_formats[0]} flag, but torch treats it as {treated}"
            yield Finding("format-differs", "warning", f"{tensor.name} {text}", None, _format_reason(tensor))
        elif not tensor.memory_formats and treated != "contiguous_format":
            text = f"is in no memory format, but torch treats it as {treated} and keeps that order"
            yield Finding("format-differs", "info", f"{tensor.name} {text}", None, None)


def _format_reason(tensor: TensorRow) -> str:
    ones = [d for d, n in enumerate(tensor.sizes) if n == 1]
    strides = ", ".join(f"stride[{d}] = {tensor.strides[d]}" for d in ones)
    return (
        f"the strides of the size-1 dimensions decide ({strides}); "
        f".clone(memory_format=…) sets them, .contiguous() does not"
    )


def _shared(report: InspectReport) -> Iterator[Finding]:
    rows = {(tensor.storage, tensor.name): tensor for tensor in report.tensors}
    for storage in report.storages:
        members = [rows[storage.id, name] for name in storage.tensors if rows[storage.id, name].numel]
        if len(members) < 2 or not storage.nbytes:
            continue
        count, each = len(members), format_bytes(storage.nbytes)
        clones = format_bytes(sum(tensor.nbytes for tensor in members))
        yield Finding(
            "shared-storage",
            "info",
            f"{some([tensor.name for tensor in members])} share storage {storage.id}: torch.save of all together "
            f"writes {each} once, of each to its own file {count} × {each}; clones {clones} in all",
            None,
            f"safetensors refuses them together: {_keep(members)}; plain pickle writes the storage once per tensor",
        )


def _keep(members: Sequence[TensorRow]) -> str:
    first = max(members, key=lambda tensor: (tensor.is_contiguous, tensor.nbytes))
    same = [
        t.name for t in members
        if t is not first and (t.sizes, t.strides, t.data_ptr) == (first.sizes, first.strides, first.data_ptr)
    ]  # fmt: skip
    others = [t.name for t in members if t is not first and t.name not in same]
    parts = [f"{some(same)} duplicates {first.name}"] if same else []
    parts += [f"{some(others)} can be taken from it again"] if others else []
    return f"keep {first.name}; {', '.join(parts)}"


def _hidden_storages(report: InspectReport) -> Iterator[Finding]:
    for storage in report.storages:
        if storage.held_by:
            yield Finding(
                "hidden-storage",
                "warning",
                f"storage {storage.id} ({format_bytes(storage.nbytes)}) is alive, but no variable names a tensor of it",
                None,
                f"held by {', '.join(storage.held_by)}",
            )


def _interchange(report: InspectReport) -> Iterator[Finding]:
    for tensor in report.tensors:
        if tensor.stride_unit_bytes != tensor.itemsize:
            yield Finding(
                "byte-strides",
                "warning",
                f"{tensor.name}: byte strides {tensor.strides} are no multiples of the item size {tensor.itemsize}: "
                "torch and DLPack cannot express it",
                None,
                "copy it",
            )
        if any(stride < 0 for stride in tensor.strides):
            remedy = "use .copy()"
            if tensor.is_contiguous:
                remedy += "; np.ascontiguousarray changes nothing, since the flipped dimension has size 1"
            message = f"{tensor.name} has a negative stride {tensor.strides}: torch.from_numpy refuses it"
            yield Finding("negative-stride", "info", message, None, remedy)


_RULES = (
    _simulation,
    _impossible_views,
    _hidden_copies,
    _overlapping_writes,
    _overlaps,
    _waste,
    _misaligned,
    _memory_formats,
    _interchange,
    _shared,
    _hidden_storages,
)
