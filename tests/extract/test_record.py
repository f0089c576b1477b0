"""Recording a forward function by function: equal to the forward, honest about values it read, no unknown tensors."""

import json

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from transformers import masking_utils

from extract import build
from extract.admission import check_rebuilt
from extract.build import Built
from extract.initialisers import describe_placeholders
from extract.inputs import WantedInput, dense_stride
from extract.patches import broadcast_masks
from extract.record import Recorded, record
from extract.scale import scaled
from schemas.fx import NotRepresentable, lift
from schemas.graph import TensorSpec, check

pytestmark = pytest.mark.torch
IDS = '{"kind":"integers","low":0,"high":7}'
NORMAL = '{"kind":"normal","mean":0.0,"std":1.0}'


def wanted(**inputs: tuple[str, tuple[int, ...], str]) -> tuple[WantedInput, ...]:
    return tuple(
        WantedInput(name=name, spec=TensorSpec(dtype=d, shape=s, stride=dense_stride(s), device="cpu"), init=init)
        for name, (d, s, init) in inputs.items()
    )


X = wanted(x=("float32", (2, 4), NORMAL))
X_AND_MASK = wanted(x=("float32", (2, 4), NORMAL), mask=("int64", (2, 4), '{"kind":"ones"}'))


def module(forward, **tensors: torch.Tensor) -> torch.nn.Module:
    """A module with a weight, some buffers, and the forward given as a function of (self, ...)."""
    made = type("Toy", (torch.nn.Module,), {"forward": forward})()
    made.weight = torch.nn.Parameter(torch.randn(4, 4))
    for name, value in tensors.items():
        made.register_buffer(name, value)
    return made.eval()


def fake(make) -> Built:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, build._RealConstants():
        model = make()
    return build._built(model, mode, build._replace_real(model, mode))


def real(make) -> Built:
    return build._built(make(), None, {})


def admitted(built: Built, inputs: tuple[WantedInput, ...]) -> Recorded:
    found = record(built, inputs)
    (piece,) = found.capture.pieces
    roles, inits = describe_placeholders(piece, found.capture, built, inputs)
    graph = lift(piece.gm, roles=roles, inits=inits)
    check(graph)
    check_rebuilt(graph)
    return found


def names(found: Recorded) -> list[str]:
    graph = found.capture.pieces[0].gm.graph
    return [getattr(n.target, "__name__", n.target) for n in graph.nodes if n.op in ("call_function", "call_method")]


def spellings(self, x):
    first, second = x.split(2, dim=1)
    values, where = x.max(dim=1)
    y = 1 - x @ self.weight.T / 2 + 3 ** first.sum() - (x > 0).float()
    y += torch.cat(list(iter(x))).view(2, 4)
    y[0] = 0
    y[:, 1:3] *= 2.0
    return {"y": y.relu_(), "rest": (values, where, second.real, torch.nn.functional.layer_norm(x, (4,)))}


def test_a_recorded_graph_computes_what_the_forward_computes():
    built = real(lambda: module(spellings))
    (piece,) = admitted(built, X).capture.pieces
    x = torch.randn(2, 4)
    examples = [x if example.shape == (2, 4) else example for example in piece.examples]
    expected = torch.utils._pytree.tree_leaves(built.model(x.clone()))
    for left, right in zip(expected, piece.gm(*examples), strict=True):
        assert torch.equal(left, right)


def test_fake_and_real_weights_give_the_same_calls():
    assert names(admitted(fake(lambda: module(spellings)), X)) == names(admitted(real(lambda: module(spellings)), X))


def test_types_of_python_given_as_dtypes_become_dtypes():
    def forward(self, x):
        ones = torch.ones(x.shape, dtype=int) - x.to(float).to(dtype=bool).long()
        return ones * x.to(complex).real

    nodes = admitted(fake(lambda: module(forward)), X).capture.pieces[0].gm.graph.nodes
    given = [item for n in nodes for item in (*n.args, *n.kwargs.values()) if isinstance(item, torch.dtype)]
    assert given == [torch.int64, torch.float64, torch.bool, torch.complex128]


def test_placeholders_stand_in_the_order_of_their_tensors():
    def forward(self, x, ids):
        return torch.nn.functional.embedding(ids, self.weight) + x

    inputs = wanted(x=("float32", (2, 4), NORMAL), ids=("int64", (2,), IDS))
    built = fake(lambda: module(forward))
    (piece,) = (found := record(built, inputs)).capture.pieces
    roles, inits = describe_placeholders(piece, found.capture, built, inputs)
    assert roles == {"l_ids_": "input", "l_self_weight_": "parameter", "l_x_": "input"}
    assert inits["l_ids_"] == IDS and inits["l_x_"] == NORMAL


def test_names_of_weights_become_names_of_arguments_each_once():
    def forward(self, x):
        return x @ self.table["2-1"] + x @ self.get_parameter("table_2_1") + x @ self.weight

    def make() -> torch.nn.Module:
        made = module(forward)
        made.table = torch.nn.ParameterDict({"2-1": torch.nn.Parameter(torch.randn(4, 4))})
        made.register_parameter("table_2_1", torch.nn.Parameter(torch.randn(4, 4)))
        return made

    (piece,) = admitted(fake(make), X).capture.pieces
    found = [node.name for node in piece.gm.graph.nodes if node.op == "placeholder"]
    assert found == ["l_x_", "l_self_table_2_1_", "l_self_table_2_1__", "l_self_weight_"]


def branches(self, x, mask):
    if not mask.all():
        return x.sin()
    return x.cos() * mask


def test_a_value_of_an_input_that_decides_is_told():
    found = admitted(fake(lambda: module(branches)), X_AND_MASK)
    assert found.reads == ("__bool__",) and names(found) == ["cos", "mul"]


def test_tables_are_read_and_leave_no_trace():
    def forward(self, x):
        sizes = torch.stack([self.table[1], self.table.sum()])
        parts = x.split(sizes.tolist(), dim=1)
        return parts[1] * torch.zeros_like(parts[1]).sum().item()

    found = admitted(fake(lambda: module(forward, table=torch.arange(3))), X)
    assert found.reads == () and names(found) == ["split", "getitem", "mul"]


def test_a_mask_as_an_index_becomes_positions():
    found = admitted(fake(lambda: module(lambda self, x, mask: x[mask.bool()].sum())), X_AND_MASK)
    assert found.reads == ("__getitem__",)
    constants = [node for node in found.capture.pieces[0].gm.graph.nodes if node.op == "get_attr"]
    assert len(constants) == 2


def test_a_known_mask_stays_known_when_it_is_fitted_to_something_unknown():
    def forward(self, x, mask):
        return x[mask.bool().expand_as(x @ self.weight)].sum()

    assert admitted(fake(lambda: module(forward)), X_AND_MASK).reads == ("__getitem__",)


def test_masks_made_by_broadcasting_are_those_of_vmap():
    def window(batch, head, query, key):
        return (query.new_ones((), dtype=torch.bool) & (query - key < 3) & (key <= query)) | (head + batch < 0)

    ranges = torch.arange(2), torch.arange(1), torch.arange(5) + 2, torch.arange(7)
    kept = masking_utils._vmap_expansion_sdpa
    with broadcast_masks():
        found = masking_utils._vmap_expansion_sdpa(window)(*ranges)
    assert found.shape == (2, 1, 5, 7) and torch.equal(found, kept(window)(*ranges))
    assert masking_utils._vmap_expansion_sdpa is kept


def test_what_a_fake_value_was_written_into_is_known_no_longer():
    def forward(self, x):
        table = torch.zeros(4)
        table[1:] = x[0, 1:] @ self.weight[1:, 1:]
        return x * table[1:2].item()

    with pytest.raises(DataDependentOutputException):
        record(fake(lambda: module(forward)), X)
    assert record(real(lambda: module(forward)), X).reads == ("item",)


def _divides(self, x):
    self.kept /= 2
    return x * self.kept


def _clips(self, x):
    torch.nn.functional.relu(self.kept, inplace=True)
    return x * self.kept


def _takes_a_result(self, x):
    torch.add(torch.ones(4), 1, out=self.kept)
    return x * self.kept


def _leaves_the_rest(self, x):
    self.kept %= 3
    return x * self.kept


def _powers_a_view(self, x):
    made = torch.ones(4) * 3
    view = made[:2]
    view **= self.kept[:2]
    torch.nn.functional.relu(made.sub_(x[0]), inplace=True)
    return x * made * self.kept


@pytest.mark.parametrize("forward", [_divides, _clips, _takes_a_result, _leaves_the_rest, _powers_a_view])
def test_a_recorded_write_leaves_the_numbers_of_the_constructor(forward):
    kept = torch.tensor([8.0, -6.0, 4.0, 2.0])
    built = fake(lambda: module(forward, kept=kept.clone()))
    (piece,) = record(built, X).capture.pieces
    for example in piece.examples:
        if built.name_of(example) == "kept":
            assert torch.equal(built.data_of(example), kept)
    x, stands, apart = torch.randn(2, 4), kept.clone(), kept.clone()
    (found,) = piece.gm(*(stands if built.name_of(example) else x.clone() for example in piece.examples))
    assert torch.equal(found, module(forward, kept=apart)(x.clone())) and torch.equal(stands, apart)


def test_what_was_divided_in_place_by_something_fake_is_known_no_longer():
    def forward(self, x):
        table = torch.ones(4)
        table /= (x[0] @ self.weight).exp()
        return x * table[0].item()

    with pytest.raises(DataDependentOutputException):
        record(fake(lambda: module(forward)), X)


def test_tensors_of_a_legacy_constructor_are_constants():
    def forward(self, x):
        count = torch.IntTensor([2])
        assert isinstance(count, torch.IntTensor) and not isinstance(x, torch.IntTensor)
        return x[:, : count[0]] * count[0]

    found = admitted(real(lambda: module(forward)), X)
    assert found.reads == () and names(found) == ["getitem", "getitem", "mul"]


def test_what_a_function_of_a_model_cached_in_an_earlier_call_is_made_again():
    from transformers.models.dinov3_vit import modeling_dinov3_vit as module_of_model

    def forward(self, x):
        centers = module_of_model.get_patches_center_coordinates(2, 2, dtype=x.dtype, device=x.device)
        return x.T @ centers[:2]

    for built in (real(lambda: module(forward)), fake(lambda: module(forward))):
        assert admitted(built, X).reads == ()


def test_a_tensor_from_nowhere_is_refused():
    secret = iter([torch.randn(4)])
    with pytest.raises(NotRepresentable, match="no recorded call made a tensor"):
        record(real(lambda: module(lambda self, x: x + next(secret))), X)


def test_a_tensor_of_a_closure_is_a_constant():
    offset = torch.tensor([1.0, 2.0, 3.0, 4.0])
    for built in (real(lambda: module(lambda self, x: x + offset)), fake(lambda: module(lambda self, x: x + offset))):
        captured = record(built, X).capture
        roles, inits = describe_placeholders(captured.pieces[0], captured, built, X)
        (name,) = [name for name, role in roles.items() if role == "constant"]
        assert [float(item["float"]) for item in json.loads(inits[name])["data"]] == offset.tolist()


def test_weights_moved_behind_the_back_are_refused():
    def forward(self, x):
        self.weight.data = torch.zeros(4, 4)
        return x @ self.weight

    with pytest.raises(NotRepresentable, match="assigns to the data"):
        record(real(lambda: module(forward)), X)


def test_scaling_keeps_widths_and_lists_by_layer():
    small = scaled({
        "num_hidden_layers": 5, "layer_types": list("abcde"), "hidden_size": 64, "n_routed_experts": 160,
        "num_experts_per_tok": 6, "text_config": {"n_layer": 3, "eos_token_id": [1, 2, 3]}, "depth": 1,
    })  # fmt: skip
    assert small == {
        "num_hidden_layers": 2, "layer_types": ["a", "b"], "hidden_size": 64, "n_routed_experts": 6,
        "num_experts_per_tok": 6, "text_config": {"n_layer": 2, "eos_token_id": [1, 2, 3]}, "depth": 1,
    }  # fmt: skip


def test_scaling_leaves_no_stage_or_setting_of_a_layer_that_is_gone():
    small = scaled({
        "num_hidden_layers": 4, "stage_names": ["stem", "stage1", "stage2", "stage3", "stage4"],
        "out_features": ["stage2", "stage4"], "out_indices": [2, 4], "per_layer_config": {"01": {"heads": 1}, "3": {}},
    })  # fmt: skip
    assert small == {
        "num_hidden_layers": 2, "stage_names": ["stem", "stage1", "stage2"], "out_features": ["stage2"],
        "out_indices": [2], "per_layer_config": {"01": {"heads": 1}},
    }  # fmt: skip
    last = scaled({"num_layers": 3, "stage_names": list("sabc"), "out_features": ["c"], "out_indices": [3]})
    assert last["out_features"] == ["b"] and last["out_indices"] == [2]


def test_inputs_that_were_read_are_written_out_number_by_number():
    def forward(self, x, ids):
        return x * 2 if ids.max() > 100 else x * int(ids[0])

    inputs = wanted(x=("float32", (2, 4), NORMAL), ids=("int64", (3,), IDS))
    found = record(fake(lambda: module(forward)), inputs)
    (literal,) = found.capture.inits.values()
    data = json.loads(literal)["data"]
    (node,) = [node for node in found.capture.pieces[0].gm.graph.nodes if node.op == "call_method"]
    assert set(found.reads) == {"__bool__", "__int__"} and node.args[1] == data[0]
    tables = record(fake(lambda: module(lambda self, x, ids: x + ids.sum())), inputs)
    assert tables.capture.inits == {}
