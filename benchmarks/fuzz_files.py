#!/usr/bin/env python3
"""Mutate tensor files and inspect them: no traceback, no hang, no swelling, an answer or a clear error.

usage: fuzz_files.py [DIR] [--mutations 1000] [--seed 0] [--seconds 2] [--megabytes 300] [--only NAME]

Every mutant is read, reported, and written as JSON and as text in this process, as `stride-tool inspect` does it.
A mutant fails when anything but InputError is raised, when it takes longer than --seconds of CPU time, or when the
process has grown beyond --megabytes. The same seed gives the same mutants.
"""

import argparse
import pathlib
import random
import resource
import signal
import sys
import tempfile
import time
import traceback

from stridetool.analysis.files import file_report
from stridetool.errors import InputError
from stridetool.render.inspect_text import inspect_blocks
from stridetool.render.plain import write_plain
from stridetool.report.documents import to_json
from stridetool.report.envelope import envelope
from stridetool.sources import open_tensor_files

DATA = pathlib.Path(__file__).parent.parent / "tests" / "data" / "files"
INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)
WIDE = (b"\xff" * 4, b"\x00" * 4, b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff" * 8, b"\x00" * 7 + b"\x7f")


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to eight changes: bytes flipped or set, numbers set to extremes, ranges cut, doubled, moved or inserted."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        at = rng.randrange(len(out) + 1)
        end = min(len(out), at + rng.choice((1, 2, 4, 8, 16, 64, 256)))
        kind = rng.randrange(8)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = rng.choice(INTERESTING)
        elif kind == 2:
            wide = rng.choice(WIDE)
            out[at : at + len(wide)] = wide
        elif kind == 3:
            del out[at:end]
        elif kind == 4:
            out[at:at] = out[at:end]
        elif kind == 5:
            out[at:at] = rng.randbytes(rng.choice((1, 4, 16)))
        elif kind == 6:
            to = rng.randrange(len(out) + 1)
            out[to : to + end - at] = out[at:end]
        elif kind == 7 and rng.random() < 0.2:
            del out[at:]
    return bytes(out)


def inspect(path: str) -> str:
    """`ok` or `refused`; whatever else happens propagates."""
    try:
        report, findings = file_report(open_tensor_files(path))
    except InputError:
        return "refused"
    document = envelope("inspect", report, tuple(findings))
    to_json(document)
    for _ in write_plain(inspect_blocks(document), color=False):
        pass
    return "ok"


class TooSlowError(Exception):
    """The time limit struck."""


def _alarm(_signal, _frame):
    raise TooSlowError


def attack(path: pathlib.Path, scratch: pathlib.Path, options) -> tuple[dict[str, int], list[str]]:
    """Counts of outcomes, and a description of each failure."""
    data = path.read_bytes()
    rng = random.Random(f"{options.seed}:{path.name}")
    counts = {"ok": 0, "refused": 0}
    failures = []
    target = scratch / path.name
    for number in range(options.mutations):
        mutant = mutate(data, rng)
        target.write_bytes(mutant)
        signal.setitimer(signal.ITIMER_PROF, options.seconds)
        started = time.process_time()
        try:
            counts[inspect(str(target))] += 1
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{pathlib.Path(last.filename).name}:{last.lineno}"
            failures.append(f"{path.name} #{number}: {type(error).__name__} at {place}: {str(error)[:100]}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.process_time() - started
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        if grown > options.megabytes:
            failures.append(f"{path.name} #{number}: {grown} MiB after {seconds:.2f} s")
            break
    return counts, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", default=str(DATA))
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--only")
    options = parser.parse_args()
    signal.signal(signal.SIGPROF, _alarm)
    paths = [p for p in sorted(pathlib.Path(options.folder).iterdir()) if p.suffix not in (".json", ".md")]
    total, failures = {"ok": 0, "refused": 0}, []
    with tempfile.TemporaryDirectory() as scratch:
        for path in paths:
            if options.only not in (None, path.name):
                continue
            counts, failed = attack(path, pathlib.Path(scratch), options)
            total = {key: total[key] + counts[key] for key in total}
            failures += failed
            for failure in failed[:5]:
                print(f"  {failure}", flush=True)
    print(f"{total['ok']} listed, {total['refused']} refused, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
