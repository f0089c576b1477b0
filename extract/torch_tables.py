"""The tables of torch that foreign code may change, and how they are put back: one row each, for `extract.isolation`.

    TORCH_FUNCTIONS         # what the names of torch are bound to
    TABLES                  # hooks, configurations, registrations

Reads torch's globals; a row's `restore` writes them. What a library registered with torch for good has no way back:
such a row only tells, and the process ends.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.fx._symbolic_trace
import torch.nn.modules.module as hooks
from torch.utils._config_module import ConfigModule

from extract.interpreter_state import Global, bindings, is_library, is_rebound, mapping, nothing, restore_bindings


def _owners() -> Iterator[Any]:
    """The public modules of torch, and the classes that foreign code patches: tensors and modules."""
    yield from (
        module
        for name, module in list(sys.modules.items())
        if (name == "torch" or name.startswith("torch.")) and "._" not in name and hasattr(module, "__dict__")
    )
    yield from (torch.Tensor, torch.nn.Parameter, torch.autograd.Function, torch.distributions.Distribution)
    yield from {item for item in vars(torch.nn).values() if isinstance(item, type)}


def _configs() -> dict[tuple[str, str], Any]:
    """Every setting of torch's configuration modules that are loaded."""
    found: dict[tuple[str, str], Any] = {}
    for name, module in list(sys.modules.items()):
        if isinstance(module, ConfigModule):
            found |= {(name, key): value for key, value in module.get_config_copy().items()}
    return found


def _same_configs(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> bool:
    return all(now.get(key, value) == value for key, value in before.items())


def _restore_configs(before: Mapping[tuple[str, str], Any]) -> None:
    now = _configs()
    for (module, name), value in before.items():
        if now.get((module, name), value) != value:
            setattr(sys.modules[module], name, value)


def _pytree_types() -> frozenset[type]:
    return frozenset(torch.utils._pytree.SUPPORTED_NODES)


def _foreign_types(before: frozenset[type], now: frozenset[type]) -> list[type]:
    return [item for item in now - before if not is_library(item.__module__, sys.modules.get(item.__module__))]


def _restore_pytree(before: frozenset[type]) -> None:
    for item in _foreign_types(before, _pytree_types()):
        torch.utils._pytree._deregister_pytree_node(item)


def _operators() -> frozenset[str]:
    return frozenset(torch.library._impls) | frozenset(torch.library._defs)


def _private_device() -> str:
    return str(vars(torch._C)["_get_privateuse1_backend_name"]())


def _is_distributed() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def _dynamo(name: str) -> Any:
    return getattr(sys.modules.get("torch._dynamo.eval_frame"), name, None)


def _restore_stance(value: Any) -> None:
    frame = sys.modules.get("torch._dynamo.eval_frame")
    if value is not None and frame is not None:
        vars(frame)["_stance"] = value


def _allowed() -> dict[str, frozenset[int]]:
    """What Dynamo was told to put into graphs and to leave out, by id; nothing of tables that it did not make yet."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    kind = getattr(rules, "FunctionIdSet", ())
    return {
        name: frozenset(item.function_ids) for name, item in vars(rules).items()
        if isinstance(item, kind) and item.function_ids is not None
    } if rules is not None else {}  # fmt: skip


def _same_allowed(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return all(now.get(name) == ids for name, ids in before.items())


def _restore_allowed(before: Mapping[str, frozenset[int]]) -> None:
    for name, ids in before.items():
        vars(sys.modules["torch._dynamo.trace_rules"])[name].function_ids = set(ids)


TORCH_FUNCTIONS = Global(
    what="functions of torch", read=lambda: bindings(_owners()), restore=restore_bindings, changed=is_rebound
)
TABLES: tuple[Global, ...] = (
    mapping("print options of torch", vars(torch._tensor_str.PRINT_OPTS)),
    *[mapping(f"torch.nn.modules.module.{name}", held) for name, held in vars(hooks).items()
      if name.startswith("_global_") and isinstance(held, dict)],
    mapping("functions that torch.fx keeps whole", torch.fx._symbolic_trace._wrapped_fns_to_patch),
    Global(what="configuration of torch", read=_configs, restore=_restore_configs, same=_same_configs,
           lingers=True),
    Global(what="types of pytrees", read=_pytree_types, restore=_restore_pytree,
           same=lambda before, now: not _foreign_types(before, now)),
    Global(what="what Dynamo may trace", read=_allowed, restore=_restore_allowed, same=_same_allowed),
    Global(what="stance of Dynamo", read=lambda: _dynamo("_stance"), restore=_restore_stance,
           same=lambda before, now: before is None or before == now),
    Global(what="future of torch", read=lambda: dict(vars(torch.__future__)),
           restore=lambda value: vars(torch.__future__).update(value)),
    Global(what="registered operators", read=_operators, restore=nothing, same=lambda before, now: now <= before),
    Global(what="process group", read=_is_distributed, restore=nothing),
    Global(what="name of the private device", read=_private_device, restore=nothing),
)  # fmt: skip
"""What else of torch is put back."""
