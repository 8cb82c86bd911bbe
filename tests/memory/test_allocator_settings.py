"""The settings grammar against torch 2.14.1's answers, and its laws."""

import pytest
import recorded
from hypothesis import given
from hypothesis import strategies as st

from stridetool.core.memory.registry import settings_from
from stridetool.core.memory.settings import SIZE_MAX, Settings
from stridetool.errors import UsageError

TEXTS = recorded.load("conf_parse.json.xz")
NAMES = {
    "max_split_size": "max_split_size",
    "garbage_collection_threshold": "garbage_collection_threshold",
    "expandable_segments": "expandable_segments",
    "pinned_num_register_threads": "pinned_num_register_threads",
    "release_lock_on_cudamalloc": "release_lock_on_cudamalloc",
    "pinned_use_cuda_host_register": "pinned_use_cuda_host_register",
    "graph_capture_record_stream_reuse": "graph_capture_record_stream_reuse",
    "pinned_max_round_threshold": "max_round_threshold",
    "pinned_max_cached_size": "max_cached_size",
}


def signed(value):
    return value - (1 << 64) if value > SIZE_MAX // 2 else value


@pytest.mark.parametrize("entry", TEXTS, ids=lambda entry: entry["conf"])
def test_as_torch(entry):
    if not entry["ok"]:
        with pytest.raises(UsageError) as caught:
            Settings.parse(entry["conf"])
        if entry["error"]:
            assert caught.value.message == entry["error"]
        return
    settings = Settings.parse(entry["conf"])
    assert Settings.parse(str(settings)) == settings
    if entry.get("settings"):
        for own, torchs in NAMES.items():
            assert signed(getattr(settings, own)) == entry["settings"][torchs], own
        divisions = entry["settings"]["roundup_power2_divisions"]
        assert list(settings.roundup_power2_divisions) == list(divisions.values())


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("max_split_size:128", "max_split_size_mb"),
        ("Expandable_Segments:True", "expandable_segments"),
        ("expandable_segments:true", "True"),
        ("max_split_size_mb=128", "key:value"),
        ("max_split_size_mb:128;foo:1", "comma"),
        ("roundup_bypass_threshold_mb:5", "removed"),
        ("expandable_segments_page_size:5", "large_segment_size_mb"),
    ],
)
def test_hints(text, hint):
    with pytest.raises(UsageError) as caught:
        Settings.parse(text)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("max_split_size_mb:-5", "wraps"),
        ("max_split_size_mb:64.9", "reads '64.9' as 64"),
        ("max_split_size_mb:128,expandable_segments:True", "leaks"),
        ("pinned_max_round_threshold_mb:64,pinned_max_cached_size_mb:32", "above"),
    ],
)
def test_notes(text, note):
    assert any(note in each for each in Settings.parse(text).notes)


def test_plain_texts_have_no_notes():
    assert Settings.parse("max_split_size_mb:128,garbage_collection_threshold:0.8").notes == ()


def test_environment():
    both = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    assert settings_from(both) == Settings.parse("max_split_size_mb:64")
    assert settings_from({"PYTORCH_ALLOC_CONF": "expandable_segments:True"}).expandable_segments
    assert settings_from({}) == Settings()


@given(st.text(alphabet="abmx_:,[]>0123456789.- eETrualsFpndgczorw", max_size=40))
def test_any_text_is_settings_or_a_clear_error(text):
    try:
        settings = Settings.parse(text)
    except UsageError:
        return
    assert Settings.parse(str(settings)) == settings


powers = st.integers(0, 7).map(lambda power: 1 << power)
parts = st.fixed_dictionaries(
    {},
    optional={
        "large_segment_size_mb": st.integers(11, 64),
        "max_split_size_mb": st.integers(64, 4096),
        "max_non_split_rounding_mb": st.integers(64, 4096),
        "garbage_collection_threshold": st.floats(0.01, 0.99),
        "expandable_segments": st.booleans(),
        "roundup_power2_divisions": st.one_of(
            powers, st.dictionaries(powers, powers, max_size=4).map(lambda d: [f"{k}:{v}" for k, v in d.items()])
        ),
        "per_process_memory_fraction": st.floats(0, 1),
        "throw_on_cudamalloc_oom": st.booleans(),
    },
)


@given(parts)
def test_round_trip(chosen):
    def write(value):
        return f"[{','.join(value)}]" if isinstance(value, list) else value

    settings = Settings.parse(",".join(f"{key}:{write(value)}" for key, value in chosen.items()))
    assert Settings.parse(str(settings)) == settings
