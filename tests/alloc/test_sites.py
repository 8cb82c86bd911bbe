"""Which line of a recorded stack is named as the place that asked for memory."""

from stridetool.analysis.stacks import NOWHERE, site

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
OWN = {"name": "train", "filename": "/home/me/work/train.py", "line": 12}


def test_the_programs_own_frame_comes_first():
    assert site((*ALLOCATOR, OF_TORCH, OWN)) == "work/train.py:12 train"
    assert site((*ALLOCATOR, NODE, ENGINE, OWN)) == "work/train.py:12 train"


def test_threads_of_autograd_are_told_by_their_node():
    assert site((*ALLOCATOR, NODE, ENGINE)) == "autograd: BmmBackward0"


def test_an_operator_without_python_is_told_by_its_outermost_name():
    assert site(ALLOCATOR) == "operator: clone"


def test_stacks_that_say_nothing():
    assert site(()) == NOWHERE
    assert site(ALLOCATOR[:1]) == "??:0 torch::unwind::unwind()"
