"""A GPU that is not there: what torch, Inductor and Triton ask a driver is answered from a `Target`.

    stand_in(TARGETS["H200"])        # once in a process, before anything is compiled; undone by ending the process

Reads and writes nothing; nothing is ever run on the device. Only for a process of its own (`kernels` runs in one): the
answers are put where the libraries look them up. Refuses a second target, and a machine that has a real GPU.

What is answered: properties, capability, number and index of devices, random state, streams, Triton's active target.
What is decided as the device's own dispatch would: which attention kernel runs (`attention`).
What is kept from the device: the scalars that constant folding computes, and the example tensors of attention
patterns, both made on the CPU instead. Padding of matrix products is off, since it would time them.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fusion_mining.targets import Target

_standing: list[str] = []


def stand_in(target: Target) -> None:
    """Pretend that this process has the target; the same one again does nothing.

    Raises ValueError for a second target, where there is a real GPU, and where torch is built without CUDA (it cannot
    even describe a tensor on one).
    """
    if _standing == [target.name]:
        return
    if _standing:
        raise ValueError(f"this process stands in for {_standing[0]}: compile for {target.name} in another process")
    if torch.cuda.is_available():
        raise ValueError("this machine has a GPU: compile for it, or hide it with CUDA_VISIBLE_DEVICES=''")
    if torch.version.cuda is None:
        version = torch.__version__
        raise ValueError(f"torch {version} is built without CUDA: install the CUDA build, or choose target cpu")
    _standing.append(target.name)
    torch._C._ensureCUDADeviceGuardSet()
    _answer_for_torch(target)
    _answer_for_triton(target)
    _keep_patterns_on_the_host()
    _forget_capability_checks()


def stands_in() -> bool:
    """Whether this process stands in for a GPU."""
    return bool(_standing)


def attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    """`scaled_dot_product_attention` with the kernel that a GPU of compute capability 8.0 or more takes for it.

    Flash attention for half precision without a mask, memory-efficient attention where alignment allows, else plain.
    """
    scale, grouped = options.get("scale"), options.get("enable_gqa", False)
    same = query.dim() == 4 and query.shape[-1] == key.shape[-1] and not (attn_mask is not None and is_causal)
    dense = all(tensor.stride(-1) == 1 and tensor.numel() for tensor in (query, key, value))
    half = query.dtype in (torch.float16, torch.bfloat16)
    aten = torch.ops.aten
    if same and dense and half and attn_mask is None and value.shape[-1] == query.shape[-1] <= 256:
        flash = aten._scaled_dot_product_flash_attention
        heads = query.shape[1] // key.shape[1] if grouped else 1
        key, value = (t.repeat_interleave(heads, 1) if heads > 1 else t for t in (key, value))
        pad = -query.shape[-1] % 8
        query, key, value = (torch.nn.functional.pad(t, (0, pad)) if pad else t for t in (query, key, value))
        scale = scale if scale is not None else (query.shape[-1] - pad) ** -0.5
        out = flash(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return out[..., : out.shape[-1] - pad] if pad else out
    step = 8 if half else 4
    aligned = query.shape[-1] % step == 0 and value.shape[-1] % step == 0
    if same and dense and aligned and not grouped and query.dtype is not torch.float64:
        bias = _bias(attn_mask, query, key)
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, False, dropout_p, is_causal, scale=scale
        )[0]
    return _PLAIN_ATTENTION(query, key, value, attn_mask, dropout_p, is_causal, **options)


_PLAIN_ATTENTION: Callable[..., Any] = torch.nn.functional.scaled_dot_product_attention


def _bias(mask: Any, query: Any, key: Any) -> Any:
    """A mask as the memory-efficient kernel takes it: added to the scores, rows aligned to 16 elements, expanded."""
    if mask is None:
        return None
    if mask.dtype is torch.bool:
        mask = torch.where(mask, 0.0, float("-inf")).to(query.dtype)
    size = mask.shape[-1]
    if size % 16 and size > 1:
        mask = torch.nn.functional.pad(mask, (0, 16 - size % 16))[..., :size]
    return mask.expand(*query.shape[:-1], key.shape[-2])


def properties_of(target: Target) -> Any:
    """What `torch.cuda.get_device_properties` would return."""
    major, minor = target.capability
    fields = {
        "name": target.product, "major": major, "minor": minor, "total_memory": int(target.memory_gb * 1e9),
        "multi_processor_count": target.processors, "max_threads_per_multi_processor": 2048,
        "max_threads_per_block": 1024, "regs_per_multiprocessor": 65_536, "warp_size": 32, "gcnArchName": "",
        "shared_memory_per_multiprocessor": target.shared_bytes,
        "shared_memory_per_block_optin": target.shared_bytes - 1024, "shared_memory_per_block": 49_152,
        "L2_cache_size": target.l2_mib * 2**20, "is_integrated": 0, "is_multi_gpu_board": 0,
    }  # fmt: skip
    return namedtuple("Properties", fields)(**fields)


def _always(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


def _answer_for_torch(target: Target) -> None:
    import torch._dynamo.device_interface as interfaces

    properties = properties_of(target)
    shared = {
        "get_device_properties": properties, "current_device": 0, "is_available": True, "device_count": 1,
        "synchronize": None, "is_bf16_supported": True, "set_device": None, "exchange_device": 0,
        "maybe_exchange_device": 0,
    }  # fmt: skip
    alone = {
        "get_device_capability": target.capability, "_lazy_init": None, "_exchange_device": 0, "is_initialized": True,
        "_maybe_exchange_device": 0, "set_rng_state": None, "get_rng_state": torch.zeros(16, dtype=torch.uint8),
        "get_device_name": target.product, "mem_get_info": (10**11, 10**11),
    }  # fmt: skip
    for name, value in {**shared, **alone}.items():
        setattr(torch.cuda, name, _always(value))
    known = {
        "get_compute_capability": target.sm, "is_triton_capable": True, "raise_if_triton_unavailable": None,
        "get_raw_stream": 0,
    }  # fmt: skip
    for name, value in {**shared, **known}.items():
        setattr(interfaces.CudaInterface, name, staticmethod(_always(value)))
    worker: Any = interfaces.CudaInterface.Worker
    worker.get_device_properties = staticmethod(_always(properties))
    worker.current_device = staticmethod(_always(0))
    torch._C._cuda_getCurrentRawStream = _always(0)


def _answer_for_triton(target: Target) -> None:
    import triton
    from triton.backends.compiler import GPUTarget

    class Driver:
        """Triton's driver, as far as code generation asks it."""

        get_current_target = staticmethod(_always(GPUTarget("cuda", target.sm, 32)))
        get_current_device = staticmethod(_always(0))
        get_current_stream = staticmethod(_always(0))
        get_active_torch_device = staticmethod(_always(torch.device("cuda", 0)))

    triton.runtime.driver.set_active(Driver())


class _OnTheHost(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tensors that would be made on the GPU are made on the CPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        host = torch.device("cpu")
        moved = tuple(host if isinstance(value, torch.device) else value for value in args)
        options = {k: host if isinstance(v, torch.device) else v for k, v in (kwargs or {}).items()}
        return func(*moved, **options)


def _on_the_host(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with _OnTheHost():  # type: ignore[no-untyped-call]
            return function(*args, **kwargs)

    return call


def _keep_patterns_on_the_host() -> None:
    import torch._inductor.config as config
    import torch._inductor.fx_passes.joint_graph as joint

    register = joint.lazy_init
    joint.lazy_init = lambda *args, **kwargs: register(torch.device("cpu"))
    folder: Any = joint.UniformValueConstantFolder
    for name in ("run", "_add_peephole_patterns"):
        if hasattr(folder, name):
            setattr(folder, name, _on_the_host(getattr(folder, name)))
    config.shape_padding = False


def _forget_capability_checks() -> None:
    import torch.utils._triton as checks

    for name in dir(checks):
        check = getattr(checks, name)
        if hasattr(check, "cache_clear"):
            check.cache_clear()
