"""Runs a layout script for `alloc-report`, over a simulated GPU or the one that is there."""

from __future__ import annotations

from dataclasses import replace

from stridetool.analysis.conditions import Conditions
from stridetool.cli.allocation_request import Request
from stridetool.cli.allocation_targets import AllocationTarget
from stridetool.core.drivers.sim import DEFAULT_CAPACITY, SimDriver
from stridetool.errors import InputError, ProgramError
from stridetool.programs.allocations import DeviceTrace, recorded_allocations
from stridetool.programs.run import Options, run_program
from stridetool.programs.script import Failure, read_script

_MEMORY = "CUDA out of memory"


def run_recorded(
    target: AllocationTarget, request: Request, conditions: Conditions
) -> tuple[list[DeviceTrace], ProgramError | None, Conditions]:
    """What the script allocated (on the GPU, else on the host), how it failed, and the device that it ran on.

    Raises InputError when it allocated nothing, and ProgramError when it failed before it could.
    """
    assert target.script is not None
    conditions = replace(conditions, capacity=conditions.capacity or DEFAULT_CAPACITY)
    driver = SimDriver(
        conditions.capacity or DEFAULT_CAPACITY,
        address_policy=conditions.address_policy,
        stream_events=conditions.stream_events,
        name=conditions.device_name,
    )
    options = Options(alias_torch=request.alias_torch, quiet_stdout=True)
    path = target.script.path
    with recorded_allocations(driver, conditions.settings, conditions.policy, conditions.fraction) as recorders:
        run = run_program(read_script(path, target.script.name), path if target.script.name is None else None, options)
        traces = recorders.traces()
    complaint = None if _ran_out(run.outcome.failure) else run.outcome.complaint(str(target.script))
    if not traces:
        raise complaint or InputError(f"cannot report on {target.script}: it allocated nothing")
    traces = [trace for trace in traces if trace.device != "cpu"] or traces
    return traces, complaint, conditions


def _ran_out(failure: Failure | None) -> bool:
    """Whether the script ran out of memory: that is a result and no failure."""
    return failure is not None and _MEMORY in failure.message
