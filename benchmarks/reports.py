"""What a report of a long trace or recording costs beside what it cannot do without, in the same run.

usage: python benchmarks/reports.py [--rounds 3] [--events 200000]

A trace is held against the bare replay of the same program, a recording against `pickle.load` and against that
replay. Each figure is the best of several rounds that alternate, so that a busy machine slows all alike.
"""

import argparse
import json
import pickle

from replay import TRACES, program, seconds

from stridetool.analysis.conditions import Conditions
from stridetool.analysis.recording_report import recording_reports
from stridetool.analysis.replay import replay
from stridetool.analysis.trace_report import trace_report
from stridetool.core.collections_off import without_collections
from stridetool.report.inspect import Source
from stridetool.sources.alloc_trace import read_trace
from stridetool.sources.torch_snapshot import read_pickle

CONDITIONS = Conditions(capacity=80 << 30)
FRAMES = [{"name": f"f{i}", "filename": f"/home/me/model{i % 9}.py", "line": i} for i in range(500)]
DEPTH = 24


def lines_of(events):
    """The events in the format of traces."""
    fields = {"alloc": ("id", "size", "stream"), "free": ("id",)}
    rows = ((e.op, {"id": e.id, "size": e.nbytes, "stream": e.stream}) for e in events)
    return "\n".join(json.dumps({"op": op, **{k: row[k] for k in fields.get(op, ())}}) for op, row in rows).encode()


def recorded(compiled):
    """A pickled snapshot after the replay: each entry with a stack of its own, of frames that all share."""
    snapshot = replay(compiled, CONDITIONS, history=True).allocator.snapshot()
    for entry in snapshot["device_traces"][0]:
        first = entry["size"] // 512 % (len(FRAMES) - DEPTH)
        entry["frames"] = FRAMES[first : first + DEPTH]
    return pickle.dumps(snapshot)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=200_000)
    options = parser.parse_args()
    source = Source("benchmark", None)
    print(f"{'trace':16} {'work':24} {'seconds':>8} {'x replay':>8}")
    for name, path in TRACES.items():
        compiled = program(path, options.events)
        lines, snapshot = lines_of(compiled.events), recorded(compiled)
        recording = read_pickle(snapshot)
        rivals = {
            "replay": lambda p=compiled: replay(p, CONDITIONS),
            "read trace": lambda data=lines: read_trace(data),
            "report of trace": lambda p=compiled: trace_report(source, p.events, CONDITIONS),
            "pickle.loads": lambda data=snapshot: pickle.loads(data),
            "read snapshot": lambda data=snapshot: read_pickle(data),
            "report of recording": lambda r=recording: recording_reports(source, r, Conditions(), ()),
        }
        best = dict.fromkeys(rivals, float("inf"))
        for _ in range(options.rounds):
            with without_collections():
                best = {rival: min(best[rival], seconds(work)) for rival, work in rivals.items()}
        for rival, spent in best.items():
            print(f"{name:16} {rival:24} {spent:8.2f} {spent / best['replay']:8.1f}")


if __name__ == "__main__":
    main()
