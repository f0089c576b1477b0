"""Ways in which generated modules are called, and what they return.

    from benchmarks.fidelity_calls import RETURNS, WAYS

Is: tables of Python source, read by `benchmarks.fidelity_grammar` alone; $R, $C and $c are as in
`benchmarks.fidelity_statements`. Reads and writes nothing.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to be called."""

    signature: str
    given: str
    """Example inputs as source: items of a tuple, or of a dictionary by name where `named`."""
    start: str
    """First statement: makes h."""
    defaults: str = ""
    """The end of the signature: what is left to its default."""
    top: str = ""
    named: bool = False
    first: str = "x"
    """An input as source."""


_X, _Y = "torch.randn($R, $C)", "torch.randn($R, $C) + 1"
_PAIR = "class Pair(NamedTuple):\n    left: torch.Tensor\n    right: Any"
_DATA = "@dataclass\nclass Data:\n    pos: torch.Tensor\n    rest: Any = None"
WAYS = (
    Way(signature="x, y", given=f"{_X}, {_Y}", start="h = x * $c + y"),
    Way(signature="x, y", given=f"{_X}, {_Y}", start="h = x; h.add_(y)"),
    Way(signature="x", given=f"{_X},", start="h = x"),
    Way(signature="x", given=f"{_X},", start="h = x.clone()"),
    Way(signature="x, y", given=f"'y': {_Y}, 'x': {_X}", start="h = x - y * $c", named=True),
    Way(signature="xs", given=f"[{_X}, {_Y}]", start="h = xs[0] + xs[1] * $c", first="xs[0]"),
    Way(signature="xs", given=f"[{_X}, {_Y}]", start="h = xs[0]; h.add_(xs[1])", first="xs[1]"),
    Way(signature="xs, xs_0", given=f"[{_X}, {_Y}], {_X}", start="h = xs[0] * 2 + xs[1] - xs_0", first="xs_0"),
    Way(signature="xs_1, xs", given=f"{_X}, ({_X}, {_Y})", start="h = xs_1 * 2 + xs[1] - xs[0]", first="xs_1"),
    Way(
        signature="batch",
        given=f"{{'a_b': {_X}, 'a': {{'b': {_Y}}}}}",
        start="h = batch['a_b'] - batch['a']['b'] * $c",
        first="batch['a_b']",
    ),
    Way(
        signature="batch, batch_m",
        given=f"'batch': {{'m': {_X}}}, 'batch_m': {_Y}",
        start="h = batch['m'] * 2 + batch_m",
        named=True,
        first="batch_m",
    ),
    Way(
        signature="batch",
        given=f"{{'a-b': {_X}, 'a.b': {_Y}, 'a b': {_X}}}",
        start="h = batch['a-b'] - batch['a.b'] * 2 + batch['a b'] * 3",
        first="batch['a b']",
    ),
    Way(signature="batch", given=f"{{3: {_X}, 4: {_Y}, 'k': None}}", start="h = batch[3] - batch[4]", first="batch[4]"),
    Way(
        signature="batch",
        given=f"{{'x': {_X}, 'more': [({_Y},), {{'z': {_X}}}]}}",
        start="h = batch['x'] * batch['more'][0][0] + batch['more'][1]['z']",
        first="batch['x']",
    ),
    Way(signature="batch", given=f"OrderedDict(x={_X}, y={_Y})", start="h = sum(batch.values())", first="batch['x']"),
    Way(
        signature="pair",
        given=f"Pair({_X}, {_Y})",
        start="h = pair.left - pair.right * $c",
        top=_PAIR,
        first="pair.left",
    ),
    Way(
        signature="pair, y",
        given=f"Pair({_X}, [{_X}]), {_Y}",
        start="h = pair.left - pair[1][0] * y",
        top=_PAIR,
        first="y",
    ),
    Way(
        signature="data, y",
        given=f"Data({_X}, {_Y}), {_X}",
        start="h = data.pos * $c + data.rest - y",
        top=_DATA,
        first="y",
    ),
    Way(
        signature="data",
        given=f"Data({_X}, {{'k': {_Y}}})",
        start="h = data.pos; h.mul_(data.rest['k'])",
        top=_DATA,
        first="data.pos",
    ),
    Way(
        signature="data",
        given=f"[Data({_X}), Data({_Y}, 2.0)]",
        start="h = data[0].pos + data[1].pos * data[1].rest",
        top=_DATA,
        first="data[0].pos",
    ),
    Way(
        signature="x, nothing, y",
        defaults="z=None",
        given=f"{_X}, None, {_Y}",
        start="h = x + (y if nothing is None else 0)",
    ),
    Way(
        signature="x, scale, y, name, flag",
        given=f"{_X}, 2.5, {_Y}, 'sum', True",
        start="h = x * scale + (y if flag and name == 'sum' else 0)",
    ),
    Way(
        signature="xs, n",
        given=f"[{_X}, None, 3, {_Y}], 2",
        start="h = (xs[0] if xs[1] is None else 0) * xs[2] + xs[3] / n",
        first="xs[3]",
    ),
    Way(signature="*xs", given=f"{_X}, {_Y}", start="h = xs[0] - xs[1] * $c", first="xs[1]"),
    Way(
        signature="**kw", given=f"'x': {_X}, 'y': {_Y}", start="h = kw['x'] - kw['y'] * $c", named=True, first="kw['x']"
    ),
    Way(signature="x, *, y", given=f"'x': {_X}, 'y': {_Y}", start="h = x / (y.abs() + 1)", named=True),
    Way(signature="x", defaults="y=torch.linspace(-1, 1, 24)[:$C]", given=f"{_X},", start="h = x + y"),
    Way(signature="x, y", given="*(lambda t: (t, t))(torch.randn($R, $C)),", start="y.add_($c); h = x * 2"),
    Way(signature="x, y", given="*(lambda t: (t, t))(torch.randn($R, $C)),", start="h = x * 2 - y"),
    Way(signature="x, y", given="*(lambda t: (t, t[:, :2]))(torch.randn($R, $C)),", start="y.mul_($c); h = x + 1"),
    Way(signature="x, y", given="*(lambda t: (t, t[0]))(torch.randn($R, $C)),", start="h = x + y"),
    Way(
        signature="xs",
        given="(lambda t: [t[:, :$C], t[:, $C:]])(torch.randn($R, 2 * $C)),",
        start="h = xs[0] * $c + xs[1]",
        first="xs[0]",
    ),
    Way(signature="x", given="torch.randn(1, $C).expand($R, $C),", start="h = x * $c"),
    Way(signature="x, y", given="torch.randn($C, $R).t(), torch.randn($R, 2 * $C)[:, ::2]", start="h = x; h.add_(y)"),
    Way(signature="x", given="torch.randn($R, $C, requires_grad=True),", start="h = x * $c"),
    Way(signature="x, s", given=f"{_X}, torch.tensor(1.5)", start="h = x * s"),
    Way(
        signature="x, y",
        given="torch.randn($R, $C, dtype=torch.float64), torch.randn($C).half()",
        start="h = x.float() + y",
    ),
    Way(signature="x, i", given=f"{_X}, torch.randint(-8, 8, ($R, $C), dtype=torch.int8)", start="h = x + i * 0.1"),
    Way(signature="x, i", given=f"{_X}, torch.randint(0, 200, ($C,), dtype=torch.uint8)", start="h = x + i / 100"),
    Way(signature="x, b", given=f"{_X}, torch.rand($R, $C) > 0.5", start="h = x * b"),
    Way(signature="x, z", given=f"{_X}, torch.randn($R, $C, dtype=torch.complex64)", start="h = x + z.real * z.imag"),
    Way(signature="x, z", given=f"{_X}, torch.empty(0, $C)", start="h = torch.cat([x, z])"),
    Way(
        signature="x, u",
        given=f"{_X}, torch.tensor([7, 60000], dtype=torch.uint16)",
        start="h = x + u.to(torch.int32).sum() / 60000",
    ),
    Way(signature="x, f", given=f"{_X}, torch.randn($C).to(torch.float8_e4m3fn)", start="h = x + f.float()"),
)
RETURNS: tuple[tuple[str, str], ...] = (
    ("h", ""),
    ("h", ""),
    ("h, h.sum()", ""),
    ("{'a': h, 'b': h[0]}", ""),
    ("[h, h[:1]]", ""),
    ("h, None, 3", ""),
    ("h, (h + 1, [h * 2])", ""),
    ("h, h", ""),
    ("h * 1, $first", ""),
    ("$first, h * 1", ""),
    ("h.sum(), h.shape", ""),
    ("OrderedDict(a=h, b=h.mean())", ""),
    ("{'a': {'b': [h]}, 3: (h.amax(), None)}", ""),
    ("h[:, 1:], h.t()", ""),
    ("Result(h, h.mean())", "class Result(NamedTuple):\n    out: torch.Tensor\n    mean: torch.Tensor"),
    ("Result(h, [h.mean()])", "@dataclass\nclass Result:\n    out: torch.Tensor\n    mean: Any"),
    ("h, self.tail", ""),
    ("h + self.tail, self.head.weight", ""),
    ("h, h.shape[0], 'name', 2.5", ""),
    ("torch.max(h, 1)", ""),
    ("h.split(1, 0)", ""),
    ("h > 0, h.argmax(), h", ""),
    ("[h]", ""),
    ("(h,)", ""),
)
"""(what is returned, what stands before the class)."""
