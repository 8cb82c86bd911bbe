"""The devices of this machine: the host, and the GPUs or the one that is simulated."""

from __future__ import annotations

import contextlib
from typing import Any

from stridetool.bench.machine import host_facts
from stridetool.core.drivers import cuda
from stridetool.core.drivers.device import CPU, Device, driver_for
from stridetool.core.drivers.sim import PRESETS, SimDriver
from stridetool.errors import UnavailableError
from stridetool.report.devices import DeviceRow, DevicesReport, PresetRow
from stridetool.report.envelope import Finding


def devices_report() -> tuple[DevicesReport, tuple[Finding, ...]]:
    """What tensors can live on here, and a finding when the GPU among it is none."""
    gpus, findings = (_gpus(), ()) if cuda.is_available() else ((_simulated(),), (_NO_GPU,))
    presets = tuple(PresetRow(name, SimDriver.preset(name).capacity) for name in PRESETS)
    return DevicesReport(devices=(_host(), *gpus), presets=presets), findings


def _host() -> DeviceRow:
    facts = host_facts()
    free: int | None = None
    total: int | None = None
    with contextlib.suppress(UnavailableError):
        free, total = driver_for(CPU).mem_info()
    name = str(facts.pop("cpu", "host"))
    return DeviceRow(device="cpu", name=name, total_bytes=total, free_bytes=free, simulated=False, facts=facts)


def _simulated() -> DeviceRow:
    driver: Any = driver_for(Device("cuda", 0))
    free, total = driver.mem_info()
    return DeviceRow(device="cuda:0", name=driver.name, total_bytes=total, free_bytes=free, simulated=True)


def _gpus() -> tuple[DeviceRow, ...]:
    import cupy

    return tuple(_gpu(cupy, index) for index in range(cupy.cuda.runtime.getDeviceCount()))


def _gpu(cupy: Any, index: int) -> DeviceRow:
    from stridetool.bench.cuda import device_facts, device_properties

    free, total = driver_for(Device("cuda", index)).mem_info()
    name = device_properties(cupy, index)["name"].decode()
    facts = device_facts(cupy, index)
    return DeviceRow(
        device=f"cuda:{index}", name=name, total_bytes=total, free_bytes=free, simulated=False, facts=facts
    )


_NO_GPU = Finding(
    code="simulated",
    severity="info",
    message="no GPU is reachable: cuda is simulated (addresses and a capacity, backed by host memory when touched)",
    hint="on a machine with an NVIDIA GPU: pip install 'stride-tool[cuda12]' (or cuda13)",
)
