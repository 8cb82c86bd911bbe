"""Which settings a recording ran under: the text that it holds, its numbers, or what its memory shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stridetool.core.memory.recorded import Recording
from stridetool.core.memory.settings import DEFAULT, ROUNDUP_BUCKETS, SIZE_MAX, Settings
from stridetool.errors import UsageError

_TEXT = "PYTORCH_CUDA_ALLOC_CONF"
_LONGEST = 4096  # letters; what is behind them is no text that somebody set


def recorded_settings(recording: Recording) -> tuple[Settings, tuple[str, ...]]:
    """The settings, and what had to be assumed about them."""
    text = recording.settings.get(_TEXT)
    if isinstance(text, str):
        text = text[:_LONGEST]
        try:
            parsed = replace(Settings.parse(text), backend="native")
        except UsageError as error:
            rest = _known_parts(text)
            return rest, (f"of the recorded settings, {text!r}, what this version does not read: {error.message}",)
        return _with_numbers(parsed, recording.settings)
    expandable = any(s.is_expandable for device in recording.devices for s in device.segments)
    settings = replace(DEFAULT, expandable_segments=expandable)
    return settings, ("the recording holds no settings: " + (str(settings) or "the defaults") + " are assumed",)


def _known_parts(text: str) -> Settings:
    """What can be read of a text that names keys of other releases."""
    kept: list[str] = []
    for part in _parts(text):
        try:
            Settings.parse(",".join([*kept, part]))
        except UsageError:
            continue
        kept.append(part)
    return replace(Settings.parse(",".join(kept)), backend="native")


def _parts(text: str) -> list[str]:
    """The text at its commas, but for those in brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


def _with_numbers(settings: Settings, fields: Mapping[str, Any]) -> tuple[Settings, tuple[str, ...]]:
    """The numbers win over the text: a program may have changed settings while it ran."""
    found: dict[str, Any] = {}
    split = fields.get("max_split_size")
    if type(split) is int and -1 <= split <= SIZE_MAX:
        found["max_split_size"] = SIZE_MAX if split < 0 or split >= 1 << 62 else split
    threshold = fields.get("garbage_collection_threshold")
    if type(threshold) is float and 0.0 <= threshold < 1.0:
        found["garbage_collection_threshold"] = threshold
    if type(fields.get("expandable_segments")) is bool:
        found["expandable_segments"] = fields["expandable_segments"]
    divisions = fields.get("roundup_power2_divisions")
    if isinstance(divisions, dict):
        values = tuple(divisions.get(str(1 << i), 0) for i in range(ROUNDUP_BUCKETS))
        if all(type(v) is int and 0 <= v <= 1 << 20 and v & (v - 1) == 0 for v in values):
            found["roundup_power2_divisions"] = values
    differing = [name for name, value in found.items() if not _same(getattr(settings, name), value)]
    if not differing:
        return settings, ()
    settings = replace(settings, **{name: found[name] for name in differing}, text="")
    return settings, (f"{', '.join(differing)} were changed while the program ran",)


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, tuple):
        return [max(v, 1) for v in first] == [max(v, 1) for v in second]
    if isinstance(first, int) and not isinstance(first, bool):
        return first == second or (first >= 1 << 62 and second >= 1 << 62)
    return bool(first == second)
