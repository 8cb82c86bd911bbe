"""`stride-tool devices`: what tensors can live on here, real or simulated."""

from __future__ import annotations

import contextlib
from typing import Any

from stridetool.cli.options import ColorOption, ForceFlag, FormatOption, JsonFlag, OutputPath
from stridetool.errors import UnavailableError
from stridetool.report.devices import DeviceRow, DevicesReport
from stridetool.report.envelope import Finding


def devices(
    json: JsonFlag = False,
    format: FormatOption = None,
    output: OutputPath = None,
    force: ForceFlag = False,
    color: ColorOption = "auto",
) -> None:
    """List the host and the GPUs; without one, the GPU that is simulated."""
    from stridetool.cli.output import Output
    from stridetool.cli.present import text_of
    from stridetool.render.devices_text import devices_blocks
    from stridetool.report.documents import to_json
    from stridetool.report.envelope import envelope

    where = Output.choose(("text", "json", "html"), json=json, format=format, path=output, force=force, color=color)
    gpus = _gpus()
    report = DevicesReport(devices=(_host(), *(gpus or (_simulated(),))))
    document = envelope("devices", report, () if gpus else (_NO_GPU,))
    blocks = devices_blocks(document)
    where.write([to_json(document)] if where.format == "json" else text_of("stride-tool devices", blocks, where))


def _host() -> DeviceRow:
    from stridetool.bench.machine import host_facts
    from stridetool.core.drivers.device import CPU, driver_for

    facts = host_facts()
    free: int | None = None
    total: int | None = None
    with contextlib.suppress(UnavailableError):
        free, total = driver_for(CPU).mem_info()
    name = str(facts.pop("cpu", "host"))
    return DeviceRow(device="cpu", name=name, total_bytes=total, free_bytes=free, simulated=False, facts=facts)


def _simulated() -> DeviceRow:
    from stridetool.core.drivers.device import Device, driver_for

    driver: Any = driver_for(Device("cuda", 0))
    free, total = driver.mem_info()
    return DeviceRow(device="cuda:0", name=driver.name, total_bytes=total, free_bytes=free, simulated=True)


def _gpus() -> tuple[DeviceRow, ...]:
    from stridetool.core.drivers import cuda

    if not cuda.is_available():
        return ()
    from stridetool.bench.cuda import gpu_rows

    return gpu_rows()


_NO_GPU = Finding(
    code="simulated",
    severity="info",
    message="no GPU is reachable: cuda is simulated (addresses and a capacity, backed by host memory when touched)",
    hint="on a machine with an NVIDIA GPU: pip install 'stride-tool[cuda12]' (or cuda13)",
)
