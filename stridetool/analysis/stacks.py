"""Which place in a program a recorded stack names: the one line that reports show instead of dozens of frames."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stridetool.core.memory.recorded import Frames, frame_text

_FOREIGN = ("/torch/", "torch/csrc", "/c10/", "/ATen/", "<frozen", "/contextlib.py", "Modules/main.c", "Objects/call.c")
_NODE = re.compile(r"torch::autograd::(?:generated::)?(\w{1,80})::apply\(")
_OPERATOR = re.compile(r"at::_ops::(\w{1,80})::call\(")
NOWHERE = "(no stack recorded)"
_MAX_SITE = 160
_MAX_KNOWN = 1 << 14
_MAX_FRAMES = 12


class Places:
    """The places of many stacks. They share their frames, so that each frame is looked at once.

    Frames are told by identity: an instance lives while the recording that holds them does.
    """

    def __init__(self) -> None:
        self._own: dict[int, str] = {}  # a frame → the place, "" where it is not the program's own
        self._foreign: dict[tuple[int, ...], str] = {}  # the frames of a stack without any of the program's own
        self._whole: dict[int, str] = {}  # a stack, which entries share → what `whole` makes of it

    def __call__(self, frames: Frames) -> str:
        """`FILE:LINE function` of the innermost frame that is the program's own, else what torch was doing.

        The threads of autograd have no frame of the program, but with C++ frames the node whose gradient it was.
        """
        for frame in frames:
            place = self._own.get(id(frame))
            if place is None:
                place = self._own[id(frame)] = "" if _is_foreign(frame) else _line(frame)
            if place:
                return place
        key = tuple(map(id, frames))
        place = self._foreign.get(key)
        if place is None:
            place = _work_of_torch(frames) or (_line(frames[0]) if len(frames) else NOWHERE)
            if len(self._foreign) < _MAX_KNOWN:
                self._foreign[key] = place
        return place

    def whole(self, frames: Frames) -> str:
        """The place, and below it the frames, innermost first: a line each."""
        text = self._whole.get(id(frames))
        if text is None:
            lines = [_in_full(frame) for frame in frames[:_MAX_FRAMES] if isinstance(frame, Mapping)]
            text = self._whole[id(frames)] = "\n".join([self(frames), *lines])
        return text


def _line(frame: object) -> str:
    if not isinstance(frame, Mapping):
        return NOWHERE
    file = _short(frame_text(frame, "filename"))
    return f"{file}:{frame_text(frame, 'line')} {frame_text(frame, 'name')}"[:_MAX_SITE]


def _in_full(frame: Mapping[str, object]) -> str:
    return f"{frame_text(frame, 'name')} {frame_text(frame, 'filename')}:{frame_text(frame, 'line')}"[:_MAX_SITE]


def _is_foreign(frame: object) -> bool:
    file = frame_text(frame, "filename")
    return not file.endswith(".py") or any(part in file for part in _FOREIGN)


def _work_of_torch(frames: Frames) -> str | None:
    """The innermost node of autograd, else the outermost operator; None without C++ frames of either."""
    names = [frame_text(frame, "name") for frame in frames]
    node = next((found[1] for found in map(_NODE.search, names) if found), None)
    if node is not None:
        return f"autograd: {node}"
    operator = next((found[1] for found in map(_OPERATOR.search, reversed(names)) if found), None)
    return None if operator is None else f"operator: {operator}"


def _short(path: str) -> str:
    return "/".join(path.split("/")[-2:])
