"""The settings of torch's caching allocator, as plain values; `grammar.py` reads them from torch's text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20
SIZE_MAX = (1 << 64) - 1
ROUNDUP_BUCKETS = 16  # by floor(log2(MiB)): 1 MiB and less … 32 GiB and more


def as_signed(size: int) -> int:
    """As torch shows an unsigned size: "no limit" is -1."""
    return size - (SIZE_MAX + 1) if size > SIZE_MAX // 2 else size


@dataclass(frozen=True, slots=True)
class Settings:
    """What one settings text means. Sizes are bytes; `SIZE_MAX` is "no limit".

    `text` is what was parsed; `notes` say what torch accepts silently but hardly anybody means. Neither counts
    in comparisons. `str(settings)` is the shortest text with the same meaning.
    """

    backend: str = "native"
    max_split_size: int = SIZE_MAX
    large_segment_size: int = 20 * MIB
    max_non_split_rounding: int = 20 * MIB
    garbage_collection_threshold: float = 0.0
    roundup_power2_divisions: tuple[int, ...] = (0,) * ROUNDUP_BUCKETS
    expandable_segments: bool = False
    release_lock_on_cudamalloc: bool = False
    throw_on_cudamalloc_oom: bool = False
    per_process_memory_fraction: float = 1.0
    graph_capture_record_stream_reuse: bool = False
    pinned_use_cuda_host_register: bool = False
    pinned_use_background_threads: bool = False
    pinned_free_catch_all: bool = False
    pinned_num_register_threads: int = 1
    pinned_reserve_segment_size: int = 0
    pinned_max_round_threshold: int = SIZE_MAX
    pinned_max_cached_size: int = SIZE_MAX
    text: str = field(default="", compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def parse(cls, text: str) -> Settings:
        """Settings from torch's text. Raises UsageError with torch's message where torch refuses it."""
        from stridetool.core.memory.grammar import Parser

        return Parser(text).settings()

    def __str__(self) -> str:
        return self.describe()

    def describe(self) -> str:
        """The text to paste into the environment; empty for the defaults."""
        parts = [_write(key, name, getattr(self, name)) for key, name in NAMES.items() if _differs(self, name)]
        return ",".join(parts)


def _differs(settings: Settings, name: str) -> bool:
    default = settings.large_segment_size if name == "max_non_split_rounding" else getattr(DEFAULT, name)
    return bool(getattr(settings, name) != default)


def _write(key: str, name: str, value: Any) -> str:
    if name == "roundup_power2_divisions" and len(set(value)) == 1 and value[0]:
        return f"{key}:{value[0]}"
    if name == "roundup_power2_divisions":
        return f"{key}:[{','.join(f'{1 << i}:{d}' for i, d in enumerate(value))}]"
    return f"{key}:{value // MIB if key.endswith('_mb') else value}"


DEFAULT = Settings()
NAMES = {
    "backend": "backend",
    "expandable_segments": "expandable_segments",
    "max_split_size_mb": "max_split_size",
    "large_segment_size_mb": "large_segment_size",
    "max_non_split_rounding_mb": "max_non_split_rounding",
    "garbage_collection_threshold": "garbage_collection_threshold",
    "roundup_power2_divisions": "roundup_power2_divisions",
    "per_process_memory_fraction": "per_process_memory_fraction",
    "release_lock_on_cudamalloc": "release_lock_on_cudamalloc",
    "throw_on_cudamalloc_oom": "throw_on_cudamalloc_oom",
    "graph_capture_record_stream_reuse": "graph_capture_record_stream_reuse",
    "pinned_use_cuda_host_register": "pinned_use_cuda_host_register",
    "pinned_use_background_threads": "pinned_use_background_threads",
    "pinned_free_catch_all": "pinned_free_catch_all",
    "pinned_num_register_threads": "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb": "pinned_reserve_segment_size",
    "pinned_max_round_threshold_mb": "pinned_max_round_threshold",
    "pinned_max_cached_size_mb": "pinned_max_cached_size",
}
