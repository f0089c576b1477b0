"""A smaller configuration of the same architecture, whose weights can be held where a forward needs their values.

    small = scaled(settings)          # fewer layers and experts, everything else as it was

Only depth and the number of experts shrink: a layer keeps its widths, so its calls keep their shapes. Rows traced so
are marked by the rung "scaled". Reads and writes nothing.
"""

from collections.abc import Mapping
from typing import Any

EXPERTS = frozenset("num_local_experts num_experts n_routed_experts moe_num_experts".split())
CAPS: tuple[tuple[frozenset[str], int, str], ...] = (
    (
        frozenset(
            "num_hidden_layers num_layers n_layer n_layers num_encoder_layers num_decoder_layers encoder_layers "
            "decoder_layers depth num_blocks".split()
        ),
        2,
        "two layers show how layers follow each other",
    ),
    (
        EXPERTS,
        4,
        "four experts show a routing; at least as many as a token is given",
    ),
)
"""(keys, largest value, why): applied at every depth of a configuration."""
BY_LAYER = "per_layer_config"
"""Key of a table of settings by number of a layer."""
_ROUTED = ("num_experts_per_tok", "num_selected_experts", "moe_top_k", "top_k")


def scaled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with `CAPS` applied; what has an entry a layer keeps the entries of the layers left."""
    found: dict[str, Any] = {
        key: scaled(value) if isinstance(value, Mapping) and key != BY_LAYER else value
        for key, value in settings.items()
    }
    routed = max(_count(settings.get(key)) for key in _ROUTED)
    for keys, cap, _ in CAPS:
        least = max(cap, routed) if keys is EXPERTS else cap
        for key in sorted(keys & set(found)):
            count = _count(found[key])
            if count > least:
                found = {name: _cut(name, value, count, least) for name, value in found.items()}
                found = found if keys is EXPERTS else _staged(found, count, least)
                found[key] = least
    return found


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _cut(name: str, value: Any, count: int, least: int) -> Any:
    is_by_layer = isinstance(value, list) and len(value) == count and "token" not in name
    return value[:least] if is_by_layer else value


def _staged(settings: Mapping[str, Any], count: int, least: int) -> dict[str, Any]:
    """A configuration without settings of layers that are gone, and without stages that are."""
    found = dict(settings)
    if isinstance(by_layer := found.get(BY_LAYER), Mapping):
        found[BY_LAYER] = {key: value for key, value in by_layer.items() if int(key) < least}
    stages = found.get("stage_names")
    if isinstance(stages, list) and len(stages) == count + 1:
        stages = found["stage_names"] = stages[: least + 1]
        for key, known in (("out_features", stages), ("out_indices", range(len(stages)))):
            if isinstance(chosen := found.get(key), list):
                found[key] = [item for item in chosen if item in known] or [known[-1]]
    return found
