"""The options of `alloc-report` as values, and the conditions of a replay that follow from them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stridetool.analysis.conditions import Conditions
from stridetool.analysis.moments import Moment
from stridetool.cli.options import PIPE, STDIN
from stridetool.core.memory.settings import DEFAULT, Settings
from stridetool.errors import UsageError
from stridetool.units import parse_bytes

DEFAULT_ROWS = 10
_UNIT = re.compile(r"(?i)[kmgtp]i?b?")
_LEAST_CAPACITY = 1 << 20  # bytes; whoever means less writes no unit behind it


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `alloc-report`."""

    targets: tuple[str, ...] = ()
    settings: str | None = None
    capacity: str | None = None
    fraction: float | None = None
    what_if: tuple[str, ...] = ()
    sweep: bool = False
    events: bool = False
    device: str | None = None
    address_policy: str = "bump"
    stream_events: str = "auto"
    policy: str | None = None
    message: str | None = None
    at: Moment | None = None
    alias_torch: bool = False
    top: int | None = None

    @property
    def rows(self) -> int:
        """How many rows a table of the report keeps."""
        return DEFAULT_ROWS if self.top is None else self.top


def sweep_command(request: Request, target: str) -> str:
    """The command that tries what torch offers on one target, everything else as it was asked for."""
    return _command(request, target, "--sweep")


def run_command(request: Request, target: str, settings: str) -> str:
    """The command that runs a script under other settings, everything else as it was asked for."""
    return _command(replace(request, settings=settings), target)


def _command(request: Request, target: str, *options: str) -> str:
    usual = Request()
    words = ["stride-tool", "alloc-report", PIPE if target == STDIN else target, *options]
    for name in ("settings", "capacity", "fraction", "device", "address_policy", "stream_events", "policy", "at"):
        value = getattr(request, name)
        if value != getattr(usual, name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    if request.alias_torch:
        words.append("--alias-torch")
    return shlex.join(words)


def conditions_of(request: Request) -> Conditions:
    """The options as conditions of a replay. Raises UsageError for values that make none."""
    settings = Settings.parse(request.settings) if request.settings is not None else DEFAULT
    if request.capacity is not None and request.device is not None:
        raise UsageError("--capacity and --device both say how large the device is")
    capacity, name = None, "simulated GPU"
    if request.capacity is not None:
        capacity = _capacity(request.capacity, request.targets)
    elif request.device is not None:
        from stridetool.core.drivers.sim import SimDriver

        capacity, name = SimDriver.preset(request.device).capacity, request.device
    fraction = 1.0 if request.fraction is None else request.fraction
    if not 0.0 <= fraction <= 1.0:
        raise UsageError(f"--fraction {request.fraction} is not within [0, 1]")
    return Conditions(
        settings=replace(settings, backend="native"),
        capacity=capacity,
        fraction=fraction,
        policy=request.policy or "2.14",
        address_policy=request.address_policy,
        stream_events=_stream_events(request.stream_events),
        device_name=name,
    )


def _capacity(text: str, targets: Sequence[str]) -> int:
    """The bytes of `--capacity`. Raises UsageError for no size, and for one whose unit became a target."""
    nbytes = parse_bytes(text)
    unit = next((target for target in targets if _UNIT.fullmatch(target)), None)
    if nbytes < _LEAST_CAPACITY and unit is not None:
        raise UsageError(
            f"--capacity {text} {unit} is two words, and {text} bytes are no GPU", hint=f"did you mean {text}{unit}?"
        )
    return nbytes


def _stream_events(text: str) -> str | int:
    """`auto`, `manual`, or after how many queries an event is finished: `3`, also written `queries:3`."""
    if text in ("auto", "manual"):
        return text
    text = text.removeprefix("queries:")
    if text.isdecimal() and len(text) < 10:
        return int(text)
    raise UsageError(f"--stream-events {text!r} is none of auto, manual and a number of queries")
