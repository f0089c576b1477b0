"""What generated modules are made of, second part: statements with parts of their own in the module or beside it.

    from benchmarks.fidelity_modules import STATEMENTS

Is: tables as in `benchmarks.fidelity_statements`, whose docstring says how they are read, and all of both.
"""

from benchmarks.fidelity_statements import TENSOR_STATEMENTS, one_of

_LINEAR = "self.fc$n = nn.Linear($C, $C)"
AUTOCAST = (
    one_of(
        "autocast",
        "with torch.autocast('cpu', dtype=torch.bfloat16):\n    h = self.fc$n(h)\nh = h.float()",
        init=_LINEAR,
    ),
    one_of(
        "autocast",
        "with torch.autocast('cpu', dtype=torch.bfloat16):\n    h = self.fc$n(h).float()\n    h.mul_($c)",
        init=_LINEAR,
    ),
    one_of(
        "autocast",
        "with torch.autocast('cpu', dtype=torch.bfloat16):\n    g$n = h @ h.t()\n"
        "    with torch.autocast('cpu', enabled=False):\n        g$n = g$n.float() @ h\nh = h + g$n * 0.1",
    ),
    one_of(
        "autocast",
        "h = self.cast$n(h).float()",
        init=_LINEAR,
        method="@torch.autocast('cpu', dtype=torch.bfloat16)\ndef cast$n(self, t):\n    return self.fc$n(t)",
    ),
    one_of(
        "autocast",
        "with torch.autocast('cpu', dtype=torch.float16, enabled=$k > 2):\n    h = (h @ h.t() @ h).float().tanh()",
    ),
)
READS = (
    one_of("read", "n$n = int(lengths.max()); h[:, :n$n] *= $c", needs="lengths"),
    one_of("read", "n$n = max(lengths.tolist()); h.mul_(1 + n$n * 0.1)", needs="lengths"),
    one_of("read", "if lengths.sum() > 3:\n    h = h * 2\nelse:\n    h = h - 1", needs="lengths"),
    one_of("read", "for i$n, n$n in enumerate(lengths.tolist()):\n    h[i$n, n$n:] = 0", needs="lengths"),
    one_of("read", "for i$n in range(int(lengths[0])):\n    h[:, i$n].add_(i$n)", needs="lengths"),
    one_of(
        "read", "p$n = list(h.split(int(lengths.min()), 1)); p$n[0].mul_($c); h = torch.cat(p$n, 1)", needs="lengths"
    ),
    one_of("read", "r$n = h.repeat_interleave(lengths, 0); h = h + r$n.mean()", needs="lengths"),
    one_of("read", "n$n = lengths.max().item(); h = torch.cat([h[:, n$n:], h[:, :n$n]], 1)", needs="lengths"),
    one_of("read", "w$n = torch.arange(int(lengths.sum())); h = h + w$n.float().mean()", needs="lengths"),
    one_of("read", "n$n = 0\nwhile n$n < int(lengths[1]):\n    h = h + 0.1; n$n += 1", needs="lengths"),
    one_of("read", "assert int(lengths.min()) > 0\nh = h + lengths.unsqueeze(1) * 0.1", needs="lengths"),
    one_of("read", "h = h + (torch.arange($C) < lengths[:, None]).float()", needs="lengths"),
    one_of("read", "if mask.any():\n    h = h + 1", needs="mask"),
    one_of("read", "h = h + mask.sum().item() * 0.1", needs="mask"),
    one_of("read", "h[mask] = $c", needs="mask"),
    one_of("read", "h = h + h[mask].sum() * 0.1", needs="mask"),
    one_of("read", "h[mask] += h[mask] * $c", needs="mask"),
    one_of("read", "h = h + mask.nonzero().shape[0] * 0.1", needs="mask"),
    one_of("read", "h = h + torch.masked_select(h, mask).sum()", needs="mask"),
    one_of("read", "i$n, j$n = torch.where(mask); h[i$n, j$n] *= $c", needs="mask"),
    one_of("read", "if not bool(mask.all()):\n    h = h.masked_fill(mask, 0.0)", needs="mask"),
    one_of("read", "e$n = F.one_hot(ids).float(); h = h + e$n.sum(1, keepdim=True) * e$n.shape[1]", needs="ids"),
    one_of("read", "e$n = F.one_hot(ids, 8)[:, :2]; h = torch.cat([h[:, :2] + e$n, h[:, 2:]], 1)", needs="ids"),
    one_of("read", "u$n = ids.unique(); h = h + len(u$n) * 0.1", needs="ids"),
    one_of("read", "h = h + torch.bincount(ids).float().mean()", needs="ids"),
    one_of("read", "h = h + self.e$n(ids)", init="self.e$n = nn.Embedding(5, $C)", needs="ids"),
    one_of("read", "h = h[ids % $R]", needs="ids"),
    one_of("read", "h = h + torch.tensor([t * 0.1 for t in ids.tolist()])[:, None]", needs="ids"),
    one_of("read", "h = h + (ids == ids[0]).sum().item()", needs="ids"),
    one_of("read", "if h.sum() > 0:\n    h = h * 2"),
    one_of("read", "if float(h.max()) > 0.5:\n    h = h / h.max().item()"),
    one_of("read", "h = h + (1.0 if torch.equal(h, h.flip(0)) else 0.25)"),
    one_of("read", "h = h + h.argmax().item() * 0.01"),
    one_of("read", "if self.flag$n:\n    h = h + 1", init="self.register_buffer('flag$n', torch.tensor(True))"),
    one_of("read", "h = h * self.rate$n.item()", init="self.register_buffer('rate$n', torch.tensor($c))"),
    one_of("read", "h[:, :int(self.width$n)] += 1", init="self.register_buffer('width$n', torch.tensor($k))"),
    one_of("read", "if self.gate$n > 0:\n    h = h * self.gate$n", init="self.gate$n = nn.Parameter(torch.tensor($c))"),
    one_of(
        "read",
        "for s$n in self.sizes$n.tolist():\n    h[:, s$n] -= s$n",
        init="self.register_buffer('sizes$n', torch.tensor([0, 1]))",
    ),
)
_PAIR = "self.register_buffer('a$n', torch.ones($C)); self.register_buffer('b$n', self.a$n[:2])"
ALIASES = (
    one_of("alias", "self.a$n.add_(1.0); h = h + self.b$n.sum()", init=_PAIR),
    one_of("alias", "self.b$n.mul_($c); h = h + self.a$n", init=_PAIR),
    one_of("alias", "h = h + self.a$n - self.b$n.sum()", init=_PAIR),
    one_of(
        "alias",
        "h = self.q$n(torch.tanh(self.p$n(h)))",
        init="self.p$n = nn.Linear($C, $C); self.q$n = nn.Linear($C, $C); self.q$n.weight = self.p$n.weight",
    ),
    one_of("alias", "h = self.q$n(torch.tanh(self.p$n(h)))", init="self.p$n = nn.Linear($C, $C); self.q$n = self.p$n"),
    one_of(
        "alias",
        "h = h @ self.ws$n[0] + h @ self.ws$n[1].t()",
        init="self.p$n = nn.Linear($C, $C); self.ws$n = [self.p$n.weight, self.p$n.weight]",
    ),
    one_of(
        "alias",
        "self.t$n.mul_($c); h = self.p$n(h)",
        init="self.p$n = nn.Linear($C, $C); self.register_buffer('t$n', self.p$n.weight.detach())",
    ),
    one_of(
        "alias",
        "with torch.no_grad():\n    self.p$n.bias.add_($c)\nh = self.p$n(h)",
        init="self.p$n = nn.Linear($C, $C)",
    ),
    one_of(
        "alias",
        "self.c$n.fill_($c); h = h + self.d$n",
        init="self.register_buffer('c$n', torch.zeros($C)); self.d$n = self.c$n",
    ),
    one_of(
        "alias",
        "h = h + self.half$n(h).sum(1, keepdim=True)",
        init="self.half$n = nn.Linear($C, 2); self.register_buffer('row$n', self.half$n.weight.data[0])",
    ),
)
BUFFERS = (
    one_of(
        "buffer", "self.count$n.add_(1); h = h * self.count$n", init="self.register_buffer('count$n', torch.tensor(0))"
    ),
    one_of(
        "buffer",
        "self.ema$n.mul_(0.9).add_(h.mean(0), alpha=0.1); h = h - self.ema$n",
        init="self.register_buffer('ema$n', torch.zeros($C))",
    ),
    one_of(
        "buffer",
        "self.buf$n = self.buf$n + 1; h = h + self.buf$n",
        init="self.register_buffer('buf$n', torch.ones($C))",
    ),
    one_of(
        "buffer",
        "self.kept$n[:, :$k].copy_(h[:, :$k]); h = h + self.kept$n",
        init="self.register_buffer('kept$n', torch.zeros($R, $C), persistent=False)",
    ),
    one_of(
        "buffer",
        "self.kept$n.copy_(h); self.kept$n[0] = 0; h = h * 0.5",
        init="self.register_buffer('kept$n', torch.zeros($R, $C))",
    ),
    one_of("buffer", "h = h[:, self.order$n]", init="self.register_buffer('order$n', torch.randperm($C))"),
    one_of(
        "buffer", "h = h.masked_fill(self.hole$n, $c)", init="self.register_buffer('hole$n', torch.eye($R, $C).bool())"
    ),
    one_of(
        "buffer",
        "h = (h @ h.t() + self.mask$n).softmax(-1) @ h",
        init="self.register_buffer('mask$n', torch.full(($R, $R), float('-inf')).triu(1))",
    ),
    one_of(
        "buffer",
        "self.buf$n.data = self.buf$n.data * 2; h = h + self.buf$n",
        init="self.register_buffer('buf$n', torch.ones($C))",
    ),
    one_of(
        "buffer",
        "self.ring$n[int(self.at$n)] = h.mean(); self.at$n += 1; h = h + self.ring$n.sum()",
        init="self.register_buffer('ring$n', torch.zeros(4)); self.register_buffer('at$n', torch.tensor(1))",
    ),
    one_of("buffer", "h = h if self.none$n is None else h * 2", init="self.register_buffer('none$n', None)"),
    one_of(
        "buffer",
        "self.box$n.low.minimum(h.amin()); self.box$n.low.copy_(h.amin()); h = h - self.box$n.low",
        init="self.box$n = nn.Module(); self.box$n.register_buffer('low', torch.tensor(0.0))",
    ),
    one_of(
        "buffer",
        "h = h + self.seen$n.logical_or_(h.sum(0) > 0).float()",
        init="self.register_buffer('seen$n', torch.zeros($C, dtype=torch.bool))",
    ),
    one_of(
        "buffer",
        "h = F.linear(h, self.q$n.to(h.dtype) * 0.1)",
        init="self.q$n = nn.Parameter(torch.randint(-8, 8, ($C, $C), dtype=torch.int8), requires_grad=False)",
    ),
    one_of(
        "buffer",
        "h = h.masked_fill(self.keep$n, 0.0)",
        init="self.keep$n = nn.Parameter(torch.tensor([True, False] * $H), requires_grad=False)",
    ),
)
ELSEWHERE = (
    one_of(
        "elsewhere",
        "h = h[:, self.ids$n['perm']] * self.parts$n[0] + self.parts$n[1]",
        init="self.parts$n = [torch.full(($C,), $c), torch.arange($C) / 9]; self.ids$n = {'perm': torch.randperm($C)}",
    ),
    one_of("elsewhere", "h = h * TABLE$n", top="TABLE$n = torch.linspace(-1, 1, $C)"),
    one_of("elsewhere", "h = h[:, PLACES$n['in'][0]]", top="PLACES$n = {'in': [torch.arange($C).flip(0)]}"),
    one_of("elsewhere", "h = h + self.on_class$n", method="on_class$n = torch.full(($C,), $c)"),
    one_of(
        "elsewhere",
        "h = self.scaled$n(h)",
        method="def scaled$n(self, t, w=torch.linspace(0.5, 1, $C)):\n    return t * w",
    ),
    one_of("elsewhere", "h = self.shift$n(h)", init="s$n = torch.full(($C,), $c)\nself.shift$n = lambda t: t + s$n"),
    one_of(
        "elsewhere",
        "h = h * self.data$n.w + self.data$n.more['b']",
        top="@dataclass\nclass Data$n:\n    w: torch.Tensor\n    more: dict",
        init="self.data$n = Data$n(torch.full(($C,), $c), {'b': torch.ones(1)})",
    ),
    one_of(
        "elsewhere",
        "h = h * self.pair$n.left - self.pair$n.right",
        top="class Pair$n(NamedTuple):\n    left: torch.Tensor\n    right: torch.Tensor",
        init="self.pair$n = Pair$n(torch.tensor($c), torch.ones($C))",
    ),
    one_of(
        "elsewhere", "h = self.scale$n(h)", init="self.scale$n = functools.partial(torch.mul, torch.full(($C,), $c))"
    ),
    one_of(
        "elsewhere", "h = moved$n(h)", top="OFFSET$n = torch.tensor([$c])\ndef moved$n(t):\n    return t + OFFSET$n"
    ),
    one_of("elsewhere", "h = h + self.rows$n", init="self.rows$n = torch.arange($R)[:, None]"),
    one_of("elsewhere", "h = h + torch.tensor(self.numbers$n)", init="self.numbers$n = [0.1 * i for i in range($C)]"),
    one_of(
        "elsewhere",
        "h = h * self.ps$n[0] + self.pd$n['b']",
        init="self.ps$n = nn.ParameterList([torch.rand($C)]); self.pd$n = nn.ParameterDict({'b': torch.rand($C)})",
    ),
    one_of("elsewhere", "h = h * self.loose$n[0]", init="self.loose$n = [nn.Parameter(torch.rand($C))]"),
    one_of("elsewhere", "h = h + self.made$n", method="@property\ndef made$n(self):\n    return torch.full(($C,), $c)"),
    one_of("elsewhere", "self.log$n.append(h.sum()); h = h + sum(self.log$n)", init="self.log$n = [torch.tensor($c)]"),
    one_of(
        "elsewhere", "h = h + self.slots$n[1]", init="self.slots$n = deque([torch.ones($C), torch.full(($C,), $c)])"
    ),
    one_of(
        "elsewhere",
        "self.store$n['m'].add_(1.0); h = h + self.store$n['m']",
        init="self.store$n = {'m': torch.zeros($C)}",
    ),
    one_of("elsewhere", "STATE$n.mul_($c); h = h + STATE$n", top="STATE$n = torch.ones($C)"),
)
_STATISTICS = "self.register_buffer('m$n', torch.zeros($C)); self.register_buffer('v$n', torch.ones($C))"
TRAINING = (
    one_of(
        "statistics", "h = F.batch_norm(h, self.m$n, self.v$n, training=True); h = h + self.m$n.exp()", init=_STATISTICS
    ),
    one_of("statistics", "h = F.batch_norm(h, self.m$n, self.v$n)", init=_STATISTICS),
    one_of(
        "statistics",
        "h = torch.batch_norm(h, None, None, self.m$n, self.v$n, True, 0.5, 1e-5, False)",
        init=_STATISTICS,
    ),
    one_of(
        "statistics",
        "h = F.instance_norm(h[..., None].repeat(1, 1, 3), self.m$n, self.v$n)[..., 0] + self.v$n",
        init=_STATISTICS,
    ),
    one_of(
        "statistics",
        "self.bn$n.train(); h = self.bn$n(h); h = h + self.bn$n.running_mean",
        init="self.bn$n = nn.BatchNorm1d($C)",
    ),
    one_of("statistics", "h = self.bn$n(h)", init="self.bn$n = nn.BatchNorm1d($C)"),
    one_of("statistics", "h = self.bn$n(h)", init="self.bn$n = nn.BatchNorm1d($C, track_running_stats=False)"),
    one_of(
        "statistics",
        "h = h + self.e$n(ids); h = h + self.e$n.weight.sum()",
        init="self.e$n = nn.Embedding(5, $C, max_norm=0.1)",
        needs="ids",
    ),
    one_of(
        "statistics",
        "w$n = self.e$n.weight * 2; h = h + self.e$n(ids) + w$n.sum()",
        init="self.e$n = nn.Embedding(5, $C, max_norm=0.1)",
        needs="ids",
    ),
    one_of(
        "statistics",
        "h = h + F.embedding(ids, self.t$n, max_norm=0.5); h = h + self.t$n[0]",
        init="self.register_buffer('t$n', torch.ones(5, $C))",
        needs="ids",
    ),
    one_of(
        "statistics", "h = h + self.e$n(ids[None])", init="self.e$n = nn.EmbeddingBag(5, $C, max_norm=0.1)", needs="ids"
    ),
    one_of(
        "statistics", "h = self.sn$n(h)", init="self.sn$n = nn.utils.parametrizations.spectral_norm(nn.Linear($C, $C))"
    ),
    one_of(
        "statistics", "h = self.wn$n(h)", init="self.wn$n = nn.utils.parametrizations.weight_norm(nn.Linear($C, $C))"
    ),
    one_of("statistics", "h = self.fq$n(h)", init="self.fq$n = torch.ao.quantization.FakeQuantize()"),
    one_of(
        "statistics", "h = self.ob$n(h) + self.ob$n.max_val", init="self.ob$n = torch.ao.quantization.MinMaxObserver()"
    ),
    one_of(
        "statistics",
        "h = self.at$n(h[None], h[None], h[None])[0][0]",
        init="self.at$n = nn.MultiheadAttention($C, 2, batch_first=True)",
    ),
    one_of(
        "statistics",
        "h = self.tr$n(h[None])[0]",
        init="self.tr$n = nn.TransformerEncoderLayer($C, 2, 8, batch_first=True)",
    ),
    one_of("statistics", "h = self.ls$n(h[None])[0][0]", init="self.ls$n = nn.LSTM($C, $C, batch_first=True)"),
    one_of("statistics", "h = self.gc$n(h, h)", init="self.gc$n = nn.GRUCell($C, $C)"),
    one_of("statistics", "h = self.ln$n(h)", init="self.ln$n = nn.LayerNorm($C)"),
    one_of("statistics", "nn.init.constant_(h[0], $c)"),
    one_of(
        "statistics",
        "h = self.lazy$n(h)",
        init="self.lazy$n = nn.Sequential(nn.Linear($C, $C), nn.ReLU(inplace=True), nn.Dropout(0.5, inplace=True))",
    ),
)
METHODS = (
    one_of("method", "h = self.add$n(h)", method="def add$n(self, t):\n    t.add_($c)\n    return t * 2"),
    one_of("method", "self.write$n(h)", method="def write$n(self, t):\n    t[:, 0] = $c"),
    one_of(
        "method",
        "h = self.still$n(h, b=$c)",
        method="@staticmethod\ndef still$n(t, *rest, b=1.0, **more):\n    return t * b",
    ),
    one_of(
        "method",
        "h = self.deep$n(h, 3)",
        method="def deep$n(self, t, k):\n    return t if k == 0 else self.deep$n(t * $c, k - 1)",
    ),
    one_of(
        "method",
        "h = sum(self.parts$n(h))",
        method="def parts$n(self, t):\n    for k in range(2):\n        yield t * k",
    ),
    one_of(
        "method",
        "for m$n in self.ms$n:\n    h = m$n(h)",
        init="self.ms$n = nn.ModuleList([nn.Linear($C, $C), nn.Tanh()])",
    ),
    one_of(
        "method",
        "h = self.md$n['b'](self.md$n['a'](h))",
        init="self.md$n = nn.ModuleDict({'a': nn.Linear($C, $C), 'b': nn.GELU()})",
    ),
    one_of(
        "method",
        "h = self.in$n(h)",
        init="self.in$n = Inner$n()",
        top="class Inner$n(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.w = nn.Parameter(torch.rand($C))\n"
        "        self.register_buffer('hits', torch.zeros(()))\n    def forward(self, t):\n        self.hits += 1\n"
        "        return t * self.w + self.hits",
    ),
    one_of(
        "method",
        "h = self.hk$n(h)",
        init="self.hk$n = nn.Linear($C, $C); self.hk$n.register_forward_hook(lambda m, a, o: o * $c)",
    ),
    one_of(
        "method",
        "h = self.hp$n(h)",
        init="self.hp$n = nn.Linear($C, $C); self.hp$n.register_forward_pre_hook(lambda m, a: (a[0] + $c,))",
    ),
    one_of("method", "try:\n    h = h @ h\nexcept RuntimeError:\n    h = h + $c"),
    one_of(
        "method",
        "h = torch.utils.checkpoint.checkpoint(self.ck$n, h, use_reentrant=False)",
        init="self.ck$n = nn.Linear($C, $C)",
    ),
    one_of("method", "def add$n(t):\n    nonlocal h\n    h = t + $c\nadd$n(h)"),
    one_of("method", "if (m$n := h.mean()).dim() == 0:\n    h = h - m$n"),
    one_of("method", "h = functools.reduce(torch.add, [h * k for k in (0.1, 0.2)])"),
    one_of("method", "h = dict(zip('ab', h.chunk(2, 1)))['b'].repeat(1, 2)"),
    one_of("method", "h = self.cell$n.forward(h)", init="self.cell$n = nn.Linear($C, $C)"),
    one_of("method", "print(f'{h.shape}', end='', file=io.StringIO())\nh = h + $c"),
    one_of("method", "warnings.warn('seen')\nh = h - $c"),
    one_of("method", "logging.getLogger('m').info('rows %s', h.shape)\nh = h * $c"),
)
STATE = (
    one_of("state", "self.calls$n += 1; h = h * self.calls$n", init="self.calls$n = 0"),
    one_of(
        "state",
        "if 'k' not in self.memo$n:\n    self.memo$n['k'] = h.detach() * 2\nh = h + self.memo$n['k']",
        init="self.memo$n = {}",
    ),
    one_of("state", "if not hasattr(self, 'first$n'):\n    self.first$n = h.sum()\nh = h - self.first$n"),
    one_of("state", "self.last$n = h; h = h * $c", init="self.last$n = None"),
    one_of("state", "self.last$n = h * 1; self.last$n.add_($c); h = h + self.last$n", init="self.last$n = None"),
    one_of("state", "h = h * rate$n($k)", top="@functools.lru_cache(None)\ndef rate$n(k):\n    return 1.0 / k"),
    one_of(
        "state",
        "h = h + table$n($C)",
        top="@functools.lru_cache(None)\ndef table$n(k):\n    return torch.arange(k) * 0.1",
    ),
)
STATEMENTS = (
    *TENSOR_STATEMENTS, *AUTOCAST, *READS, *ALIASES, *BUFFERS, *ELSEWHERE, *TRAINING, *METHODS, *STATE,
)  # fmt: skip
"""All statements of modules that a graph can hold."""
