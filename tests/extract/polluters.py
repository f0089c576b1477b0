"""Code that leaves something changed, one function a global, and how to tell: for the tests of isolation.

`POLLUTERS` is (name, what changes the process, what tells its state); what tells knows nothing of `extract`.
"""

import builtins
import gc
import locale
import logging
import math
import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch._dynamo
import torch._inductor.config
import torch.autograd.forward_ad
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

_transforms: Any = torch._C._functorch
_backends: Any = torch.backends
KEPT: list[Any] = []
"""Contexts that were entered and are held, as a module would hold them."""


class Functions(TorchFunctionMode):
    """A mode that doubles nothing and sees all."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Dispatches(TorchDispatchMode):
    """The same below autograd."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Own:
    """A type that pytrees do not know."""


def enter(context: Any) -> None:
    """Enter a context for good."""
    context.__enter__()
    KEPT.append(context)


def double(x: Any) -> Any:
    """Stands for a function that was replaced."""
    return x + x


def _replace(owner: Any, name: str, value: Any = double) -> Callable[[], None]:
    return lambda: setattr(owner, name, value)


def _autocasts() -> list[Any]:
    names = ("cpu", "cuda", "xpu", "mps", "hpu", "xla")
    return [(torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in names]


def _casts(device: str) -> Callable[[], None]:
    def change() -> None:
        torch.set_autocast_enabled(device, True)
        torch.set_autocast_dtype(device, torch.float16)

    return change


def _product() -> list[float]:
    """A product that shows bfloat16, autocast and low precision."""
    left = torch.linspace(0, 1, 12).reshape(3, 4)
    return [str((left @ left.T).dtype), *(left @ left.T).double().reshape(-1).tolist()]  # type: ignore[list-item]


def _hook() -> None:
    torch.nn.modules.module.register_module_forward_hook(lambda module, args, output: output * 2)


def _parameter_hook() -> None:
    torch.nn.modules.module.register_module_parameter_registration_hook(
        lambda module, name, value: torch.nn.Parameter(value * 2)
    )


def _linear() -> list[float]:
    with torch.random.fork_rng(devices=[]):
        layer = torch.nn.Linear(1, 1)
    torch.nn.init.ones_(layer.weight)
    torch.nn.init.ones_(layer.bias)
    out: list[float] = layer(torch.ones(1)).tolist()
    return out


def _registered() -> float:
    module = torch.nn.Module()
    module.register_parameter("p", torch.nn.Parameter(torch.ones(())))
    return float(module.p)


def _precision() -> list[str]:
    return [torch.get_float32_matmul_precision(), _backends.cuda.matmul.fp32_precision,
            _backends.cudnn.conv.fp32_precision, _backends.mkldnn.matmul.fp32_precision]  # fmt: skip


def _nesting() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _denormal() -> float:
    return float(torch.tensor(1e-310, dtype=torch.float64) / 2)


def _saved() -> list[float]:
    x = torch.ones(2, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad is not None
    grad: list[float] = x.grad.tolist()
    return grad


def _soft_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (99, hard))


POLLUTERS: tuple[tuple[str, Callable[[], Any], Callable[[], Any]], ...] = (
    ("default dtype", lambda: torch.set_default_dtype(torch.float64), lambda: torch.zeros(2).dtype),
    ("default tensor type", lambda: torch.set_default_tensor_type(torch.HalfTensor), lambda: torch.zeros(2).dtype),
    ("default device", lambda: torch.set_default_device("meta"), lambda: torch.zeros(2).device),
    ("device context", lambda: enter(torch.device("meta")), lambda: torch.zeros(2).device),
    ("torch seed", lambda: torch.manual_seed(7), lambda: torch.initial_seed()),
    ("torch random", lambda: torch.rand(3), lambda: torch.default_generator.get_state().tolist()),
    ("numpy random", lambda: np.random.seed(7), lambda: np.random.get_state()[1].tolist()),
    ("random", lambda: random.seed(7), random.getstate),
    ("gradients", lambda: torch.set_grad_enabled(False), lambda: (torch.ones(1, requires_grad=True) * 2).requires_grad),
    ("inference mode", lambda: enter(torch.inference_mode()), lambda: torch.zeros(1).is_inference()),
    ("autocast on cpu", _casts("cpu"), _autocasts),
    ("autocast on cuda", _casts("cuda"), _autocasts),
    ("autocast on xpu", _casts("xpu"), _autocasts),
    ("autocast entered", lambda: enter(torch.autocast("cpu", torch.bfloat16)), lambda: (_nesting(), _product())),
    ("autocast cache", lambda: torch.set_autocast_cache_enabled(False), torch.is_autocast_cache_enabled),
    ("vmap", lambda: _transforms._vmap_increment_nesting(3, "error"), _transforms.maybe_current_level),
    ("grad transform", _transforms._grad_increment_nesting, _transforms.maybe_current_level),
    ("functional transform", lambda: _transforms._func_increment_nesting(True),
     _transforms.maybe_current_level),
    ("forward derivatives", torch.autograd.forward_ad.enter_dual_level,
     lambda: torch.autograd.forward_ad._current_level),
    ("function mode", lambda: enter(Functions()), lambda: torch._C._len_torch_function_stack()),
    ("dispatch mode", lambda: enter(Dispatches()), lambda: torch._C._len_torch_dispatch_stack()),
    ("fake mode", lambda: enter(FakeTensorMode()), lambda: type(torch.zeros(1)).__name__),
    ("torch functions off", lambda: enter(torch._C.DisableTorchFunction()), torch._C._is_torch_function_enabled),
    ("anomaly detection", lambda: torch.autograd.set_detect_anomaly(True), torch.is_anomaly_enabled),
    ("saved tensors", lambda: enter(torch.autograd.graph.saved_tensors_hooks(double, double)), _saved),
    ("threads", lambda: torch.set_num_threads(3), torch.get_num_threads),
    ("deterministic", lambda: torch.use_deterministic_algorithms(True, warn_only=True),
     lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())),
    ("matmul precision", lambda: torch.set_float32_matmul_precision("medium"), _precision),
    ("tf32", _replace(_backends.cuda.matmul, "allow_tf32", True), _precision),
    ("fp32 precision", _replace(torch.backends, "fp32_precision", "ieee"),
     lambda: (torch.backends.fp32_precision, _backends.cuda.matmul.fp32_precision)),
    ("reduced precision", _replace(_backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", False),
     lambda: _backends.cuda.matmul.allow_fp16_reduced_precision_reduction),
    ("cudnn benchmark", _replace(_backends.cudnn, "benchmark", True), lambda: _backends.cudnn.benchmark),
    ("cudnn off", _replace(_backends.cudnn, "enabled", False), lambda: _backends.cudnn.enabled),
    ("mkldnn off", _replace(_backends.mkldnn, "enabled", False), lambda: _backends.mkldnn.enabled),
    ("flash attention off", lambda: _backends.cuda.enable_flash_sdp(False), _backends.cuda.flash_sdp_enabled),
    ("math attention off", lambda: _backends.cuda.enable_math_sdp(False), _backends.cuda.math_sdp_enabled),
    ("quantized engine", _replace(_backends.quantized, "engine", "qnnpack"),
     lambda: _backends.quantized.engine),
    ("denormals", lambda: torch.set_flush_denormal(True), _denormal),
    ("sparse invariants", torch.sparse.check_sparse_tensor_invariants.enable,
     torch.sparse.check_sparse_tensor_invariants.is_enabled),
    ("always warn", lambda: torch.set_warn_always(True), torch.is_warn_always_enabled),
    ("print options", lambda: torch.set_printoptions(precision=1), lambda: repr(torch.tensor(1 / 3))),
    ("module hook", _hook, _linear),
    ("parameter hook", _parameter_hook, _registered),
    ("future", lambda: torch.__future__.set_swap_module_params_on_conversion(True),
     torch.__future__.get_swap_module_params_on_conversion),
    ("dynamo", _replace(torch._dynamo.config, "capture_scalar_outputs", True),
     lambda: torch._dynamo.config.capture_scalar_outputs),
    ("inductor", _replace(torch._inductor.config, "max_autotune", True),
     lambda: torch._inductor.config.max_autotune),
    ("allow in graph", lambda: torch._dynamo.allow_in_graph(double),
     lambda: id(double) in torch._dynamo.trace_rules._allowed_callable_ids()),
    ("stance", lambda: torch.compiler.set_stance("force_eager"), lambda: torch._dynamo.eval_frame._stance.stance),
    ("pytree", lambda: pytree.register_pytree_node(Own, lambda own: ([], None), lambda leaves, _: Own()),
     lambda: pytree.tree_leaves(Own()) == []),
    ("fx wrap", lambda: torch.fx._symbolic_trace._wrapped_fns_to_patch.update({(1, "double"): {}}),
     lambda: dict(torch.fx._symbolic_trace._wrapped_fns_to_patch)),
    ("F.relu", _replace(torch.nn.functional, "relu"), lambda: torch.nn.functional.relu(torch.tensor(-1.0)).item()),
    ("torch.add", _replace(torch, "add"), lambda: torch.add),
    ("torch.Tensor.tanh", _replace(torch.Tensor, "tanh"), lambda: torch.ones(1).tanh().item()),
    ("torch.Tensor gains a method", _replace(torch.Tensor, "doubled"), lambda: hasattr(torch.Tensor, "doubled")),
    ("Module.__call__", _replace(torch.nn.Module, "__call__", lambda self, x: x), _linear),
    ("Linear.forward", _replace(torch.nn.Linear, "forward", lambda self, x: x), _linear),
    ("init", _replace(torch.nn.init, "ones_", torch.nn.init.zeros_), _linear),
    ("torch.get_rng_state", _replace(torch, "get_rng_state", None), lambda: torch.get_rng_state),
    ("len", _replace(builtins, "len", lambda x: 0), lambda: len([1])),
    ("a new builtin", _replace(builtins, "doubled"), lambda: hasattr(builtins, "doubled")),
    ("math.sqrt", _replace(math, "sqrt"), lambda: math.sqrt(4.0)),
    ("sys.path", lambda: sys.path.insert(0, "elsewhere"), lambda: list(sys.path)),
    ("a module", lambda: sys.modules.update({"layers": types.ModuleType("layers")}), lambda: "layers" in sys.modules),
    ("a replaced module", lambda: sys.modules.update({"json": types.ModuleType("json")}),
     lambda: hasattr(sys.modules["json"], "loads")),
    ("a forgotten module", lambda: sys.modules.pop("json"), lambda: "json" in sys.modules),
    ("import hook", lambda: sys.meta_path.insert(0, Own()), lambda: len(sys.meta_path)),  # type: ignore[arg-type]
    ("environment", lambda: os.environ.update(PASSNET_POLLUTED="1"), lambda: os.environ.get("PASSNET_POLLUTED")),
    ("environment lost", lambda: os.environ.pop("PATH"), lambda: os.environ.get("PATH")),
    ("working folder", lambda: os.chdir("/"), os.getcwd),
    ("umask", lambda: os.umask(0o777), lambda: (old := os.umask(0o22), os.umask(old))[0]),
    ("locale", lambda: locale.setlocale(locale.LC_ALL, "C.UTF-8"), lambda: locale.setlocale(locale.LC_ALL)),
    ("warnings", lambda: warnings.simplefilter("error"), lambda: list(warnings.filters)),
    ("showwarning", _replace(warnings, "showwarning"), lambda: warnings.showwarning),
    ("logging level", lambda: logging.getLogger().setLevel(1), lambda: logging.getLogger().level),
    ("logging off", lambda: logging.disable(99), lambda: logging.root.manager.disable),
    ("logging handler", lambda: logging.getLogger("torch").addHandler(logging.NullHandler()),
     lambda: list(logging.getLogger("torch").handlers)),
    ("signal", lambda: signal.signal(signal.SIGUSR1, lambda *_: None), lambda: signal.getsignal(signal.SIGUSR1)),
    ("blocked signal", lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]),
     lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    ("alarm", lambda: signal.setitimer(signal.ITIMER_REAL, 1000.0), lambda: signal.getitimer(signal.ITIMER_REAL)),
    ("collector off", gc.disable, gc.isenabled),
    ("collector threshold", lambda: gc.set_threshold(1, 1, 1), gc.get_threshold),
    ("recursion limit", lambda: sys.setrecursionlimit(333333), sys.getrecursionlimit),
    ("switch interval", lambda: sys.setswitchinterval(0.5), sys.getswitchinterval),
    ("start method", lambda: multiprocessing.set_start_method("spawn", force=True),
     lambda: multiprocessing.get_start_method(allow_none=True)),
    ("excepthook", _replace(sys, "excepthook", double), lambda: sys.excepthook),
    ("stdout", _replace(sys, "stdout", None), lambda: sys.stdout),
    ("profile hook", lambda: sys.setprofile(lambda *_: None), sys.getprofile),
    ("thread hook", lambda: threading.settrace(lambda *_: None), threading.gettrace),
    ("files at once", _soft_limit, lambda: resource.getrlimit(resource.RLIMIT_NOFILE)),
    ("numpy errors", lambda: np.seterr(all="raise"), np.geterr),
    ("numpy printing", lambda: np.set_printoptions(precision=1), lambda: repr(np.array(1 / 3))),
)  # fmt: skip
