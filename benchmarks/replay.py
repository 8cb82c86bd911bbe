"""How many events a replay handles per second, compiled and in Python, next to plain dictionary work in the same run.

usage: python benchmarks/replay.py [--rounds 5] [--events 200000]

Each figure is the best of several rounds that alternate, so that a busy machine slows both alike.
"""

import argparse
import gzip
import json
import time
from pathlib import Path

from stridetool.analysis.conditions import Conditions
from stridetool.analysis.quick_replay import encode, quick_replay
from stridetool.analysis.replay import compile_events, replay
from stridetool.core.memory.events import Event
from stridetool.core.memory.settings import Settings

DATA = Path(__file__).parent.parent / "tests" / "data" / "allocator"
TRACES = {"mixed": "traces/mixed_1", "mixed, streams": "traces/mixed_3", "training step": "models/resnet50_amp"}
SETTINGS = ("", "expandable_segments:True", "max_split_size_mb:128", "roundup_power2_divisions:8")
CAPACITY = 80 << 30


def program(name, count):
    """The trace, over and over, each time closed by the frees that it lacks."""
    with gzip.open(DATA / f"{name}.jsonl.gz") as lines:
        rows = [json.loads(line) for line in lines]
    events, live = [], set()
    for row in rows:
        events.append(Event(row["op"], row.get("id"), row.get("size", 0), row.get("stream", 0)))
        if row["op"] == "alloc":
            live.add(row["id"])
        elif row["op"] == "free":
            live.discard(row["id"])
    events += [Event("free", identity) for identity in live]
    return compile_events(events * max(1, count // len(events)))


def dictionary_work(rows):
    """What any replay must do at least: remember each allocation and forget it again."""
    live = {}
    for code, slot, nbytes, _ in rows:
        if code == 0:
            live[slot] = nbytes
        else:
            live.pop(slot, None)


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=200_000)
    options = parser.parse_args()
    print(f"{'trace':16} {'settings':26} {'compiled/s':>12} {'Python/s':>10} {'dict/s':>12} {'dict: Python':>12}")
    for name, path in TRACES.items():
        compiled = program(path, options.events)
        encoded = encode(compiled)
        for text in SETTINGS:
            conditions = Conditions(Settings.parse(text), CAPACITY)
            rivals = {
                "compiled": lambda p=compiled, e=encoded, c=conditions: quick_replay(p, e, c),
                "Python": lambda p=compiled, c=conditions: replay(p, c),
                "dict": lambda p=compiled: dictionary_work(p.rows),
            }
            best = dict.fromkeys(rivals, float("inf"))
            for _ in range(options.rounds):
                best = {rival: min(best[rival], seconds(work)) for rival, work in rivals.items()}
            fast, own, plain = (len(compiled.rows) / best[rival] for rival in rivals)
            first = f"{fast:12,.0f}" if encoded else f"{'-':>12}"
            print(f"{name:16} {text or 'default':26} {first} {own:10,.0f} {plain:12,.0f} {plain / own:12.1f}")


if __name__ == "__main__":
    main()
