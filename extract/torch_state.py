"""What a thread of torch computes with, as an item may leave it changed: one row a global, for `extract.isolation`.

    MODES                   # the rows, in the order in which they are put back

Switches that torch reads and sets through pairs of functions (`_get_x` and `_set_x`, the properties of
`torch.backends`) are found by their names, so that a new release's are put back too; what is kept otherwise has a row.
Reads torch's globals; a row's `restore` writes them. A context that was entered and never left may be left later, when
the object that entered it is collected: such a row ends the process (`Global.lingers`).
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any

import torch
import torch.utils._device as devices
import torch.utils._python_dispatch as dispatch

from extract.interpreter_state import Global, nothing

_C: Any = torch._C
_stack: Any = torch.overrides
_forward: Any = torch.autograd.forward_ad
_cuda: Any = torch.cuda
_SETTERS = (("_set_sdp_use_", ("_get_{}_sdp_enabled",)), ("_set_", ("_get_{}", "_is_{}", "_{}")))
"""(how a setter's name begins, what the name of its getter may be); the first that exists is it."""
_APART = ("_set_deterministic_algorithms", "_set_default_dtype", "_set_default_tensor_type", "_set_dispatch_mode")
"""Setters that a row of its own calls."""
_REFUSALS = (RuntimeError, AttributeError, AssertionError, TypeError)
"""What getters and setters of switches raise that this machine lacks, or that contradict another."""
Read = Callable[[], Any]
Restore = Callable[[Any], None]


# --- switches -------------------------------------------------------------------------------------------------------
def _quietly(read: Read) -> Any:
    """What a getter gives; where it refuses, in what words."""
    try:
        return read()
    except _REFUSALS as error:
        return f"{type(error).__name__}: {error}"


def _set(setter: Callable[..., Any], value: Any) -> None:
    """Call a setter with what its getter gave, which may be all of its arguments."""
    if isinstance(value, tuple):
        setter(*value)
    else:
        setter(value)


def _getter_of(setter: str) -> str:
    """The name of the getter of a setter; empty if there is none that can be called."""
    beginning, forms = next((begins, forms) for begins, forms in _SETTERS if setter.startswith(begins))
    for form in forms:
        name = form.format(setter.removeprefix(beginning))
        try:
            getattr(_C, name)()
        except (AttributeError, TypeError, RuntimeError):
            continue
        return name
    return ""


@cache
def pairs() -> tuple[tuple[str, Read, Restore], ...]:
    """(name, getter, setter) of every switch of torch."""
    found: list[tuple[str, Read, Restore]] = []
    for name in sorted(vars(_C)):
        if name.startswith("_set_") and name not in _APART and (getter := _getter_of(name)):
            found.append((getter, getattr(_C, getter), getattr(_C, name)))
    for module in sorted(name for name in sys.modules if name.startswith("torch.backends")):
        for name, item in sorted(vars(type(sys.modules[module])).items()):
            if isinstance(item, torch.backends.ContextProp):
                found.append((f"{module}.{name}", item.getter, item.setter))
    for backend, op in _PRECISIONS:
        found.append((f"precision of {backend} {op}", *_precision(backend, op)))
    return tuple(found)


_PRECISIONS = [("generic", "all"), *[(b, o) for b in ("cuda", "mkldnn") for o in ("all", "matmul", "conv", "rnn")]]


def _precision(backend: str, op: str) -> tuple[Read, Restore]:
    return (lambda: _C._get_fp32_precision_getter(backend, op),
            lambda value: nothing(_C._set_fp32_precision_setter(backend, op, value)))  # fmt: skip


def _switches() -> tuple[Any, ...]:
    return tuple(_quietly(read) for _, read, _ in pairs())


def _restore_switches(value: tuple[Any, ...]) -> None:
    for (_, read, setter), was in zip(pairs(), value, strict=True):
        if _quietly(read) != was:
            with suppress(*_REFUSALS):
                _set(setter, was)


# --- modes ----------------------------------------------------------------------------------------------------------
def _function_modes() -> tuple[Any, ...]:
    held = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return (*_stack._get_current_function_mode_stack(), held, devices.CURRENT_DEVICE)


def _restore_function_modes(value: tuple[Any, ...]) -> None:
    *modes, torch._GLOBAL_DEVICE_CONTEXT.device_context, devices.CURRENT_DEVICE = value
    for _ in _stack._get_current_function_mode_stack():
        _stack._pop_mode()
    for mode in modes:
        _stack._push_mode(mode)


_DISPATCH_FLAGS = tuple(name for name in vars(dispatch) if name.startswith("_is_in_"))


def _dispatch_modes() -> tuple[Any, ...]:
    return (*dispatch._get_current_dispatch_mode_stack(), *(getattr(dispatch, name) for name in _DISPATCH_FLAGS))


def _restore_dispatch_modes(value: tuple[Any, ...]) -> None:
    modes, flags = value[: -len(_DISPATCH_FLAGS)], value[-len(_DISPATCH_FLAGS) :]
    for mode in reversed(dispatch._get_current_dispatch_mode_stack()):
        dispatch._pop_mode(getattr(mode, "_dispatch_key", None) or getattr(mode, "_mode_key", None))
    for mode in modes:
        dispatch._push_mode(mode)
    for name, flag in zip(_DISPATCH_FLAGS, flags, strict=True):
        setattr(dispatch, name, flag)
    tell = getattr(dispatch, "set_is_in_mode_without_ignore_compile_internals", None)
    if tell is not None:
        tell(dispatch._is_in_any_mode_without_ignore_compile_internals)


def _same_objects(before: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    return len(before) == len(now) and all(old is new for old, new in zip(before, now, strict=True))


def _undo_transforms(depth: int) -> None:
    if _C._functorch.get_dynamic_layer_stack_depth() > depth:
        _C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)


_TRANSFORM_FLAGS = (
    ("_is_vmap_fallback_enabled", "_set_vmap_fallback_enabled"),
    ("get_inplace_requires_grad_allowed", "set_inplace_requires_grad_allowed"),
    ("get_single_level_autograd_function_allowed", "set_single_level_autograd_function_allowed"),
)


def _transform_flags() -> tuple[Any, ...]:
    return tuple(getattr(_C._functorch, getter)() for getter, _ in _TRANSFORM_FLAGS)


def _restore_transform_flags(value: tuple[Any, ...]) -> None:
    for (_, setter), flag in zip(_TRANSFORM_FLAGS, value, strict=True):
        getattr(_C._functorch, setter)(flag)


_GUARDS: list[Any] = []
"""Guards that hold a mode as it should be; they are never left, for leaving one brings back the mode before it."""


def _restore_inference(value: bool) -> None:
    guard = _C._InferenceMode(value)
    guard.__enter__()
    _GUARDS.append(guard)


def _keys() -> tuple[int, int]:
    return _C._dispatch_tls_local_include_set().raw_repr(), _C._dispatch_tls_local_exclude_set().raw_repr()


def _restore_keys(value: tuple[int, int]) -> None:
    """Include and exclude the dispatch keys that were, for this thread."""
    included, excluded = map(_C.DispatchKeySet.from_raw_repr, value)
    for key in _C.DispatchKey.__members__.values():
        for wanted, is_set, set_key in (
            (included, _C._dispatch_tls_is_dispatch_key_included, _C._dispatch_tls_set_dispatch_key_included),
            (excluded, _C._dispatch_tls_is_dispatch_key_excluded, _C._dispatch_tls_set_dispatch_key_excluded),
        ):
            if key in _PLAIN_KEYS and is_set(key) != wanted.has(key):
                set_key(key, wanted.has(key))


def _plain_keys() -> Iterator[Any]:
    """The keys that can be asked for one by one; others are names of groups."""
    for key in _C.DispatchKey.__members__.values():
        try:
            _C._dispatch_tls_is_dispatch_key_included(key)
            _C._dispatch_tls_local_include_set().has(key)
        except RuntimeError:
            continue
        yield key


_PLAIN_KEYS = frozenset(_plain_keys())


def _saved_hooks() -> Any:
    autograd = _C._autograd
    return autograd._top_saved_tensors_default_hooks(False), autograd._saved_tensors_hooks_get_disabled_error_message()


def _restore_saved_hooks(value: Any) -> None:
    hooks_before, message = value
    autograd = _C._autograd
    autograd._saved_tensors_hooks_enable()
    while (top := autograd._top_saved_tensors_default_hooks(False)) is not None and top != hooks_before:
        autograd._pop_saved_tensors_default_hooks()
    if message is not None:
        autograd._saved_tensors_hooks_disable(message, fail_if_non_empty=False)


def _forward_level() -> int:
    return int(_forward._current_level)


def _restore_forward_level(value: int) -> None:
    while _forward._current_level > value:
        _forward.exit_dual_level()


# --- autocast -------------------------------------------------------------------------------------------------------
@cache
def _cast_devices() -> tuple[str, ...]:
    known = getattr(_C, "_autocast_supported_devices", lambda: ["cpu", "cuda"])()
    dtypes = {name: _quietly(partial(torch.get_autocast_dtype, name)) for name in sorted(known)}
    return tuple(name for name, dtype in dtypes.items() if isinstance(dtype, torch.dtype))


def _nesting() -> int:
    """How many autocast contexts are open."""
    depth: int = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth


def _casts() -> tuple[Any, ...]:
    devices = tuple((torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in _cast_devices())
    return devices, torch.is_autocast_cache_enabled(), _nesting()


def _restore_casts(value: tuple[Any, ...]) -> None:
    states, cached, nesting = value
    for name, (enabled, dtype) in zip(_cast_devices(), states, strict=True):
        torch.set_autocast_enabled(name, enabled)
        torch.set_autocast_dtype(name, dtype)
    torch.set_autocast_cache_enabled(cached)
    while _nesting() > nesting:
        torch.autocast_decrement_nesting()
    while _nesting() < nesting:
        torch.autocast_increment_nesting()
    torch.clear_autocast_cache()


# --- numbers --------------------------------------------------------------------------------------------------------
def _random() -> tuple[bytes, ...]:
    states = [torch.default_generator.get_state()]
    states += _cuda.get_rng_state_all() if _cuda.is_initialized() else []
    return tuple(state.numpy().tobytes() for state in states)


def _restore_random(value: tuple[bytes, ...]) -> None:
    states = [torch.frombuffer(bytearray(state), dtype=torch.uint8) for state in value]
    torch.default_generator.set_state(states[0])
    for index, state in enumerate(states[1:]):
        _cuda.set_rng_state(state, index)


def _same_random(before: tuple[bytes, ...], now: tuple[bytes, ...]) -> bool:
    """Whether all generators that there were are where they were."""
    return now[: len(before)] == before


_SMALLEST = sys.float_info.min


def _flushes() -> bool:
    """Whether this processor rounds the smallest numbers to zero."""
    return _SMALLEST / 2 == 0.0


def _restore_type(device: str) -> None:
    if device == "cpu":
        _C._set_default_tensor_type(torch.FloatTensor)


MODES: tuple[Global, ...] = (
    Global(what="modes of torch functions and the default device", read=_function_modes,
           restore=_restore_function_modes, same=_same_objects),
    Global(what="dispatch modes", read=_dispatch_modes, restore=_restore_dispatch_modes, same=_same_objects),
    Global(what="function transforms", read=_C._functorch.get_dynamic_layer_stack_depth, restore=_undo_transforms),
    Global(what="flags of function transforms", read=_transform_flags, restore=_restore_transform_flags),
    Global(what="forward derivatives", read=_forward_level, restore=_restore_forward_level),
    Global(what="inference mode", read=torch.is_inference_mode_enabled, restore=_restore_inference, lingers=True),
    Global(what="dispatch keys", read=_keys, restore=_restore_keys, lingers=True),
    Global(what="gradients", read=torch.is_grad_enabled, restore=lambda value: nothing(_C._set_grad_enabled(value))),
    Global(what="anomaly detection", read=lambda: (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled()),
           restore=lambda value: nothing(_C.set_anomaly_enabled(*value))),
    Global(what="hooks of saved tensors", read=_saved_hooks, restore=_restore_saved_hooks),
    Global(what="autocast", read=_casts, restore=_restore_casts),
    Global(what="default tensor type", read=_C._get_default_device, restore=_restore_type),
    Global(what="default dtype", read=torch.get_default_dtype, restore=torch.set_default_dtype,
           lingers=True),
    Global(what="deterministic algorithms", lingers=True,
           read=lambda: (torch.are_deterministic_algorithms_enabled(),
                         torch.is_deterministic_algorithms_warn_only_enabled()),
           restore=lambda value: nothing(_C._set_deterministic_algorithms(value[0], warn_only=value[1]))),
    Global(what="switches", read=_switches, restore=_restore_switches, lingers=True),
    Global(what="threads of torch", read=torch.get_num_threads, restore=torch.set_num_threads),
    Global(what="threads between ops", read=torch.get_num_interop_threads, restore=nothing),
    Global(what="smallest numbers", read=_flushes, restore=lambda value: nothing(torch.set_flush_denormal(value))),
    Global(what="random numbers of torch", read=_random, restore=_restore_random, same=_same_random),
)  # fmt: skip
"""What a thread of torch computes with, in this order: first what reading and restoring themselves depend on."""
