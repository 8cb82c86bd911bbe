"""Whether operators are recorded in the graph, and whether tensors are made without version counters: per thread."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self


class _Mode(threading.local):
    grad = True
    inference = False


_mode = _Mode()


def is_grad_enabled() -> bool:
    """Whether operators of this thread are recorded in the graph."""
    return _mode.grad


def is_inference_mode_enabled() -> bool:
    """Whether tensors of this thread are made without version counters."""
    return _mode.inference


class _GradMode:
    """A context manager and decorator that sets the mode and puts the old one back."""

    def __init__(self, grad: bool, inference: bool | None = None) -> None:
        self._wanted = grad, inference
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> Self:
        self._before.append((_mode.grad, _mode.inference))
        self._apply()
        return self

    def _apply(self) -> None:
        _mode.grad = self._wanted[0]
        if self._wanted[1] is not None:
            _mode.inference = self._wanted[1]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _mode.grad, _mode.inference = self._before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside


def no_grad(function: Callable[..., Any] | None = None) -> Any:
    """Operators are not recorded in the graph; `with no_grad():` or a decorator."""
    return _GradMode(False) if function is None else _GradMode(False)(function)


def enable_grad(function: Callable[..., Any] | None = None) -> Any:
    """Operators are recorded again."""
    return _GradMode(True) if function is None else _GradMode(True)(function)


def inference_mode(mode: Any = True) -> Any:
    """As no_grad, and tensors made here have no version counter."""
    if callable(mode):
        return _GradMode(False, True)(mode)
    return _GradMode(not mode, bool(mode))


class set_grad_enabled(_GradMode):  # noqa: N801  torch's name: a function whose result is a context manager
    """Set the mode at once; as a context manager, put it back at the end."""

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self._before.append((_mode.grad, _mode.inference))
        self._apply()

    def __enter__(self) -> Self:
        return self
