"""What goes on growing is named, and what is made once is not."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from stridetool.analysis.leaks import Changes, annotated_steps, growth, low_points
from stridetool.cli.main import app

DATA = Path(__file__).parents[1] / "data" / "snapshots"
WORK = 1 << 20  # bytes that each step uses and frees


def report(path, *options):
    result = CliRunner().invoke(app, ["alloc-report", str(path), *map(str, options), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["report"]


def program(steps, kept):
    """Changes of some steps; `kept` says what each place keeps in each of them, in bytes."""
    changes, event = Changes(), 0
    for step in range(steps):
        made = [(site, nbytes[step]) for site, nbytes in kept.items() if nbytes[step]]
        for site, nbytes in (("work", WORK), *made, ("work", -WORK)):
            changes.add(event, site, nbytes)
            event += 1
    return changes


@st.composite
def programs(draw):
    steps = draw(st.integers(6, 30))
    made = draw(st.integers(1, steps // 2))
    sizes = st.integers(1, 4 * WORK)
    grows = draw(st.lists(sizes, min_size=steps, max_size=steps))
    once = draw(st.lists(sizes, min_size=made, max_size=made)) + [0] * (steps - made)
    return steps, {"grows": grows, "once": once, "late": once[::-1]}


@settings(max_examples=100, deadline=None)
@given(programs())
def test_what_grows_in_every_step_is_named_and_what_is_made_once_is_not(drawn):
    """Whether it is made once in the first steps or in the last ones."""
    steps, kept = drawn
    found = growth(program(steps, kept))
    assert [leak.site for leak in found.leaks] == ["grows"]
    (leak,) = found.leaks
    assert len(leak.at_steps) == len(found.steps.ends)
    assert leak.grown_bytes == leak.at_steps[-1] - leak.at_steps[0]
    assert min(kept["grows"]) <= leak.step_bytes


@given(st.integers(6, 23), st.integers(1, 4 * WORK))
def test_steps_are_told_by_the_lows_of_live_memory(steps, nbytes):
    """The end of every step, and the start where the first rise is one of its own."""
    changes = program(steps, {"grows": [nbytes] * steps})
    assert low_points(changes)[-steps:] == changes.events[2::3]
    found = growth(changes)
    (leak,) = found.leaks
    assert leak.at_steps == tuple(nbytes * (event // 3 + 1) for event in found.steps.ends)
    assert leak.step_bytes == nbytes
    assert found.steps.seen in (steps, steps + 1)


def test_a_program_that_frees_its_model_at_the_end_has_steps():
    """What is freed then is 40 times what a step uses."""
    changes = Changes()
    changes.add(-1, "model", 40 * WORK)
    steps = program(20, {"grows": [512] * 20})
    for row in zip(steps.events, steps.sites, steps.nbytes, strict=True):
        changes.add(*row)
    changes.add(steps.events[-1] + 1, "model", -40 * WORK)
    assert [leak.site for leak in growth(changes).leaks] == ["grows"]


def test_memory_that_only_grows_has_no_steps():
    """A model that is loaded: nothing tells steps of it apart."""
    changes = Changes()
    for event in range(100):
        changes.add(event, "weights", WORK)
    assert growth(changes) == (None, ())
    assert growth(Changes()) == (None, ())


def test_state_that_the_first_step_makes_is_no_leak(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import stridetool as st\nstate, losses = {}, []\nfor step in range(7):\n"
        "    for layer in range(9):\n"
        "        work = [st.empty(1 << 20, device='cuda') for _ in range(5)]\n"
        "        if layer not in state:\n            state[layer] = st.empty(1 << 19, device='cuda')\n"
        "    del work\n"
        "    losses.append(st.empty(3000, device='cuda'))\n"
    )
    found = report(path)
    assert [leak["site"] for leak in found["leaks"]] == ["train.py:9 <module>"]


def test_steps_that_a_recording_names():
    """Its program kept a list in each of eight steps; its gradients and optimizer state were made in the first."""
    found = report(DATA / "oom_observer.pickle.gz")
    assert found["steps"]["annotation"] == "Optimizer.step#AdamW.step"
    (leak,) = found["leaks"]
    assert (leak["site"], leak["step_bytes"]) == ("jobrun/make_snapshots.py:24 steps", 9600)
    text = CliRunner().invoke(app, ["alloc-report", str(DATA / "oom_observer.pickle.gz")]).stdout
    assert "(8 of 9 ends of steps, each where an annotation 'Optimizer.step#AdamW.step' begins)" in text


def test_steps_up_to_an_event():
    """Steps that begin later are none of them."""
    path = DATA / "oom_observer.pickle.gz"
    whole = report(path)["steps"]
    middle = whole["ends"][4]
    assert report(path, "--at", middle + 50)["steps"] == {**whole, "ends": whole["ends"][:5], "seen": 6}


@pytest.mark.parametrize("name", ["gpt_expandable.pickle.gz", "gpt_ring_500.pickle.gz", "streams_pending.pickle"])
def test_recordings_of_a_few_steps_that_keep_nothing(name):
    assert report(DATA / name)["leaks"] == []


def test_numbers_in_names_do_not_tell_annotations_apart():
    names = [(10 * step, f"step {step}") for step in range(1, 9)] + [(5, "load")]
    found = annotated_steps(range(100), names)
    assert found.name == "step #"
    assert found.ends == [10 * step - 1 for step in range(1, 9)]
    assert annotated_steps(range(100), names[:2]) is None
