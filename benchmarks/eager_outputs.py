"""Whether graphs of the default build compute what their real modules compute, with real weights.

    python -m benchmarks.eager_outputs --json                     # 20 of the 40 architectures
    python -m benchmarks.eager_outputs --only clip/CLIPModel      # one of them, repeatable

Every second architecture of the default build is traced by the stage `graphs`, in a child process, in its full
configuration where its weights fit `LIMIT_BYTES`, else in a configuration that the code below shrinks. In a process of
its own the library makes the real module, every weight gets random numbers, and it is called eagerly; the graph,
rebuilt from its row, gets the same inputs, weights and buffers by name. Outputs, dtypes and shapes must be the same to
the bit, in whatever order they come. Prints

| key            | meaning                                                                                          |
|----------------|--------------------------------------------------------------------------------------------------|
| architectures  | traced and compared                                                                              |
| full, small    | in the full configuration, in a shrunk one                                                       |
| equal, differ  | of these, with equal outputs, and with others                                                    |
| failed         | architectures that gave no graph: the kind of each                                               |
| different      | what differs, by architecture                                                                    |
| seconds        | of the whole run                                                                                 |

Reads the installed libraries; writes nothing.
"""

import argparse
import inspect
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from data.calls import Call, Item, Limits
from data.pool import ChildPool
from extract.configs import ConfigsConfig, resolve_configs
from extract.models import ModelsConfig, list_models
from schemas.arrow import from_table, to_table
from schemas.rows import Failure, GraphRecord, ModelConfig, ModelRef, Text

CALL = Call(
    stage="graphs", function="extract.trace:trace", config_class="extract.trace:TraceConfig",
    limits=Limits(timeout_s=600.0, memory_gib=8.0),
)  # fmt: skip
COUNT = 20
LIMIT_BYTES = 2 << 30
"""Weights that are held, in float32."""
DEPTHS = frozenset("num_hidden_layers num_layers n_layer encoder_layers decoder_layers".split())
WIDTHS = frozenset(
    "hidden_size intermediate_size moe_intermediate_size shared_expert_intermediate_size lru_width num_attention_heads "
    "num_key_value_heads".split()
)
"""Sizes that are divided alike, so that a head keeps its width."""
DIVISOR, LAYERS, VOCABULARY = 8, 2, 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What became of one architecture."""

    name: str
    is_full: bool
    difference: str
    """Empty if the outputs are equal."""
    failure: str = ""
    """Kind of the Failure where there is no graph."""


def chosen(only: Sequence[str]) -> list[ModelConfig]:
    """Every second architecture of the default build, or those of the given names."""
    refs = [row for row in list_models(config=ModelsConfig()) if isinstance(row, ModelRef)]
    rows = [row for row in resolve_configs(models=refs, config=ConfigsConfig()) if isinstance(row, ModelConfig)]
    return [row for row in rows if row.name in only] if only else rows[::2][:COUNT]


def shrunk(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with two layers, narrower ones and a short vocabulary."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found[key] = shrunk(value)
        elif key in DEPTHS and isinstance(value, int):
            found[key] = min(value, LAYERS)
        elif key in WIDTHS and isinstance(value, int):
            found[key] = max(value // DIVISOR, 1)
        elif key == "vocab_size" and isinstance(value, int):
            found[key] = min(value, VOCABULARY)
        elif isinstance(value, list) and key in ("layer_types", "mlp_layer_types"):
            found[key] = value[:LAYERS]
        else:
            found[key] = value
    return found


def traced(pool: ChildPool, row: ModelConfig) -> GraphRecord | Failure:
    """The row of one architecture."""
    with pool.borrow() as child:
        tables = child.run_item(CALL, to_table([row], ModelConfig), Item(key=row.architecture, name=row.name))
    kind: type[GraphRecord] | type[Failure] = GraphRecord if "GraphRecord" in tables else Failure
    found: GraphRecord | Failure = from_table(tables[kind.__name__], kind)[0]
    return found


def compared(pool: ChildPool, row: ModelConfig) -> Compared:
    """Trace an architecture, in full or shrunk, and compare its graph with its module."""
    record = traced(pool, row)
    is_full = isinstance(record, Failure) or record.num_parameters * 4 <= LIMIT_BYTES
    if not is_full:
        row = replace(row, config=Text(json.dumps(shrunk(json.loads(row.config)))), architecture=f"{row.architecture}s")
        record = traced(pool, row)
    if isinstance(record, Failure):
        return Compared(name=row.name, is_full=is_full, difference="", failure=f"{record.kind}: {record.message}")
    return Compared(name=row.name, is_full=is_full, difference=_apart(row, record))


def _apart(row: ModelConfig, record: GraphRecord) -> str:
    """The difference, found in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with open(writer, "w") as out:
            out.write(json.dumps(difference(row, record)))
        os._exit(0)
    os.close(writer)
    with open(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return str(json.loads(text)) if text else "the comparison died"


# --- in a process of its own ----------------------------------------------------------------------------------------
def difference(row: ModelConfig, record: GraphRecord) -> str:
    """What differs between graph and module on equal inputs and weights; empty if nothing does."""
    import torch

    from benchmarks import fidelity_check as check
    from passbench.inputs import materialize
    from schemas.fx import lower

    torch.set_num_threads(1)
    module = weighted(made(row))
    graph = record.graph
    drawn = materialize(graph, seed=3)
    kwargs = {
        argument(graph.nodes[index].name, module): value
        for index, value in zip(graph.placeholders, drawn, strict=True) if graph.nodes[index].target == "input"
    }  # fmt: skip
    state = check.held_weights(module)
    call = check.Call(module=module, args=(), kwargs=kwargs, inputs=dict(kwargs), state=state)
    try:
        bound = check.bound_values(graph, call)
        values = [
            value if tensor is None else check.copied(tensor) if node.target != "parameter" else tensor
            for tensor, value, node in zip(bound, drawn, [graph.nodes[i] for i in graph.placeholders], strict=True)
        ]
        result = check.run_eager(call, 0)
        check.seed_all(0)
        with torch.no_grad():
            outputs = lower(graph)(*values)
        before = {id(tensor) for tensor in [*kwargs.values(), *state.values()]}
        check.check_outputs(call, result, list(outputs), before, in_order=False)
        return ""
    except (check.Differs, *check.ERRORS) as error:
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def argument(name: str, module: Any) -> str:
    """The argument that a placeholder stands for, the longest whose name it ends with: l_kwargs_input_ids_."""
    text = name.lower().strip("_")
    fitting = [known for known in inspect.signature(module.forward).parameters if text.endswith(known.lower())]
    return max(fitting, key=len, default=text)


def made(row: ModelConfig) -> Any:
    """The library's own module of a configuration."""
    settings = json.loads(row.config)
    if row.library == "timm":
        import timm

        return timm.create_model(row.class_name, pretrained=False).eval()
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[settings["model_type"]].from_dict(settings)
    waiting = [config]
    while waiting:
        level = waiting.pop()
        level.return_dict, level.output_attentions, level.output_hidden_states = True, False, False
        if hasattr(level, "use_cache"):
            level.use_cache = False
        waiting += [item for item in vars(level).values() if isinstance(item, transformers.PretrainedConfig)]
    return getattr(transformers, row.class_name)(config).eval()


def weighted(module: Any) -> Any:
    """The module with a random number in every weight and every running statistic."""
    import torch

    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, weight in module.named_parameters():
            center = 1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.05 + center)
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.copy_(torch.randn(buffer.shape, generator=generator) * 0.1)
            elif name.endswith("running_var"):
                buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
    return module


def measure(rows: Sequence[ModelConfig]) -> dict[str, Any]:
    """Compare architectures one after the other; -> the flat result."""
    began = time.monotonic()
    found: list[Compared] = []
    with tempfile.TemporaryDirectory() as work, ChildPool(workers=1, work=Path(work) / "pool") as pool:
        for row in rows:
            found.append(compared(pool, row))
            print(found[-1], file=sys.stderr, flush=True)
    done = [item for item in found if not item.failure]
    return {
        "architectures": len(done), "full": sum(item.is_full for item in done),
        "small": sum(not item.is_full for item in done), "equal": sum(not item.difference for item in done),
        "differ": sum(bool(item.difference) for item in done),
        "failed": {item.name: item.failure for item in found if item.failure},
        "different": {item.name: item.difference for item in done if item.difference},
        "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="name of an architecture, repeatable")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = measure(chosen(options.only))
    print(json.dumps(found) if options.json else "\n".join(f"{key}: {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
