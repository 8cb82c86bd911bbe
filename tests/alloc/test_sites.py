"""Which line of a recorded stack is named as the place that asked for memory."""

from stridetool.analysis.stacks import NOWHERE, Places

ALLOCATOR = (
    {"name": "torch::unwind::unwind()", "filename": "??", "line": 0},
    {
        "name": "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)",
        "filename": "??",
    },
    {"name": "at::_ops::empty_strided::call(c10::ArrayRef<c10::SymInt>)", "filename": "??", "line": 0},
    {"name": "at::_ops::clone::call(at::Tensor const&)", "filename": "??", "line": 0},
)
NODE = {
    "name": "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)",
    "filename": "??",
    "line": 0,
}
ENGINE = {
    "name": "torch::autograd::Engine::thread_main(std::shared_ptr<GraphTask> const&)",
    "filename": "??",
    "line": 0,
}
OF_TORCH = {"name": "clone", "filename": "/site-packages/torch/functional.py", "line": 3}
OWN = {"name": "train", "filename": "/home/me/train.py", "line": 12}


def test_the_programs_own_frame_comes_first():
    assert Places()((*ALLOCATOR, OF_TORCH, OWN)) == "me/train.py:12 train"
    assert Places()((*ALLOCATOR, NODE, ENGINE, OWN)) == "me/train.py:12 train"


def test_threads_of_autograd_are_told_by_their_node():
    assert Places()((*ALLOCATOR, NODE, ENGINE)) == "autograd: BmmBackward0"


def test_an_operator_without_python_is_told_by_its_outermost_name():
    assert Places()(ALLOCATOR) == "operator: clone"


def test_stacks_that_say_nothing():
    assert Places()(()) == NOWHERE
    assert Places()(ALLOCATOR[:1]) == "??:0 torch::unwind::unwind()"


def test_the_whole_of_a_stack_is_its_place_and_its_frames():
    frames = [*ALLOCATOR, "no frame", OWN]
    first, *lines = Places().whole(frames).splitlines()
    assert first == Places()(frames)
    assert lines[-1] == "train /home/me/train.py:12"
    assert len(lines) == len(ALLOCATOR) + 1
    assert Places().whole(()) == NOWHERE
