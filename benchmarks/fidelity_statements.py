"""What generated modules are made of, first part: statements that need nothing but a tensor.

    from benchmarks.fidelity_statements import TENSOR_STATEMENTS

Is: tables of Python source, read by `benchmarks.fidelity_grammar` alone; nothing here runs. A statement works on `h`, a
float32 tensor of $R rows and $C columns, and leaves one of the same shape behind. $n is a number of its own, $c a
constant, $k a number of columns below $C, $H half of $C. `init` goes into the constructor, `top` before the class,
`method` into it. `needs` names further inputs: lengths (int64, one a row, 1 to $C - 1), ids (int64, one a row, below 5)
and mask (bool, as h). Writes and reads nothing.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One thing that a forward may do."""

    kind: str
    body: str
    init: str = ""
    top: str = ""
    method: str = ""
    needs: tuple[str, ...] = ()


def all_of(kind: str, *bodies: str) -> tuple[Statement, ...]:
    """Statements of one kind that need nothing."""
    return tuple(Statement(kind=kind, body=body) for body in bodies)


def one_of(kind: str, body: str, *, init: str = "", top: str = "", method: str = "", needs: str = "") -> Statement:
    """A statement with parts of its own; `needs` are names with spaces between."""
    return Statement(kind=kind, body=body, init=init, top=top, method=method, needs=tuple(needs.split()))


VIEWS = all_of(
    "view",
    "v$n = h[:, :$k]; v$n += $c",
    "v$n = h[0]; v$n.mul_($c)",
    "h.t().mul_($c)",
    "h.t()[0].add_($c)",
    "h.diagonal().fill_($c)",
    "h.select(1, 0).copy_(h.select(1, 1))",
    "h.narrow(1, 0, $k).sub_($c)",
    "h.chunk(2, 1)[1].neg_()",
    "a$n, b$n = h.split([$k, $C - $k], 1); a$n.mul_($c)",
    "h.unbind(0)[0].tanh_()",
    "u$n = h.contiguous().view(-1); u$n[::2].mul_($c)",
    "u$n = h.reshape(-1); u$n[1] = $c",
    "u$n = h.flatten(); u$n.mul_(0.5)",
    "u$n = h.to(torch.float32); u$n.add_($c)",
    "u$n = h.float(); u$n[0] = u$n[1]",
    "u$n = h.type_as(h).expand_as(h); u$n.mul_($c)",
    "u$n = h.unsqueeze(0); u$n.add_($c)",
    "u$n = h.detach(); u$n.mul_($c)",
    "h.data.mul_($c)",
    "u$n = h.transpose(0, 1).contiguous(); u$n.add_($c); h = h + u$n.t()",
    "u$n = torch.as_strided(h, ($R,), (h.stride(0),)); u$n.mul_($c)",
    "h[:, 1:] = h[:, :-1].clone()",
    "h[0, :] = h[1, :]",
    "h[..., -1] *= $c",
    "h[h > 0.5] = $c",
    "h[:, [0, 2]] += $c",
    "w$n = h.clone(); w$n[:, ::2].zero_(); h = h - w$n",
    "h.movedim(0, 1)[0].fill_($c)",
    "u$n = h.unflatten(1, (2, $H)); u$n[:, 0].mul_($c)",
    "u$n = h.view(torch.int32).view(torch.float32); u$n.mul_($c)",
    "u$n = h.swapaxes(0, 1); u$n.sub_($c)",
    "u$n = h.squeeze(0); u$n.add_($c)",
    "u$n = F.dropout(h, 0.5, False); u$n.mul_($c)",
    "u$n = h.requires_grad_(False); u$n += $c",
    "h.unsqueeze_(0).squeeze_(0)",
    "g$n = h.clone(); g$n.t_(); g$n[0].mul_($c); h = h + g$n.t()",
    "u$n = torch.view_as_complex(h.contiguous().view($R, $H, 2)); u$n.mul_(1j)",
    "u$n = torch.complex(h, h).real; u$n.add_($c); h = h + u$n",
    "a$n = b$n = h; a$n += $c; h = b$n * 0.5",
    "l$n = [h, h]; l$n[0].add_($c); h = l$n[1]",
    "d$n = {'k': h}; d$n['k'] = d$n['k'] + 1; h = h + d$n['k'] * 0.1",
    "g$n = h; g$n = g$n + 1; h = h - g$n * 0.5",
    "u$n = h.T; u$n[1:] += $c",
    "u$n = h.mT; u$n.clamp_(-1, 1)",
    "for r$n in h:\n    r$n.mul_($c)",
    "for i$n in range($R):\n    h[i$n] += i$n",
    "h.view_as(h).add_($c)",
    "torch.atleast_2d(h).mul_($c)",
    "h.hsplit(2)[0].add_(1)",
    "torch.tensor_split(h, 2, 1)[1].mul_($c)",
    "h.unfold(1, 2, 2).mul_($c)",
    "h.as_subclass(torch.Tensor).add_($c)",
    "torch.broadcast_to(h, ($R, $C)).mul_($c)",
    "torch.squeeze(h[None], 0).add_($c)",
    "u$n = h.ravel(); u$n[0] = 0.25",
    "u$n = torch.as_tensor(h); u$n.mul_($c)",
    "u$n = h.cpu(); u$n.add_($c)",
)
"""Views, and writes through them; several return the very tensor they were called on."""
IN_PLACE = all_of(
    "in place",
    "h.mul_($c)",
    "h.add_(h, alpha=$c)",
    "h.masked_fill_(h < 0, $c)",
    "h.index_add_(1, torch.tensor([0, 1]), h[:, :2].clone())",
    "h.index_fill_(0, torch.tensor([0]), $c)",
    "h.index_copy_(0, torch.tensor([1, 0]), h[:2].clone())",
    "h.scatter_(1, torch.zeros($R, 1, dtype=torch.long), $c)",
    "h.scatter_add_(1, torch.ones($R, 1, dtype=torch.long), h[:, :1].clone())",
    "h.index_put_((torch.tensor([0, 1]),), torch.tensor($c), accumulate=True)",
    "h.clamp_(-1, 1)",
    "h.zero_().add_($c)",
    "h.fill_diagonal_($c)",
    "h.addcmul_(h, h, value=$c)",
    "h.lerp_(h.neg(), 0.25)",
    "h.cumsum_(1)",
    "h.tril_()",
    "h.sub_(h.mean(1, keepdim=True))",
    "torch.relu_(h)",
    "torch.Tensor.add_(h, $c)",
    "torch._foreach_mul_([h], $c)",
    "h += h",
    "h *= h[:1].clone()",
    "h **= 2",
    "h %= 1.5",
    "h.copy_(h.flip(1))",
    "h.masked_scatter_(h > 0, h.flip(0).contiguous())",
    "h.put_(torch.tensor([0]), torch.tensor([$c]))",
    "h.hypot_(h)",
    "h.nan_to_num_()",
    "h.renorm_(2, 0, 1.0)",
    "torch.clamp_(h, min=-$c)",
    "F.relu(h, inplace=True)",
    "F.relu(h[:, :$k], inplace=True)",
    "F.hardtanh(h, -0.5, 0.5, inplace=True)",
    "F.leaky_relu(h, $c, inplace=True)",
    "F.elu(h, inplace=True)",
    "F.silu(h, inplace=True)",
    "F.threshold(h, 0.1, 0.2, True)",
    "F.relu_(h)",
    "F.hardswish(h, inplace=True)",
    "F.mish(h, inplace=True)",
    "F.celu(h, 1.0, True)",
    "F.relu6(h, inplace=True)",
    "F.hardsigmoid(h, inplace=True)",
    "F.normalize(h, out=h)",
)
OUT = all_of(
    "out",
    "o$n = torch.empty_like(h); torch.mul(h, $c, out=o$n); h = o$n",
    "torch.add(h, $c, out=h)",
    "o$n = torch.empty($R, $C); torch.cat([h[:, 1:], h[:, :1]], 1, out=o$n); h = h - o$n",
    "o$n = torch.empty($R, $R); torch.matmul(h, h.t(), out=o$n); h = h + o$n.mean()",
    "v$n = torch.empty($R); i$n = torch.zeros($R).long(); torch.max(h, 1, out=(v$n, i$n)); h = h - v$n[:, None]",
    "torch.mul(h[:, :2], $c, out=h[:, :2])",
    "torch.clamp(h, -1, 1, out=h)",
    "s$n = torch.zeros($R); torch.sum(h, 1, out=s$n); h = h + s$n[:, None]",
    "o$n = h.new_zeros($R, $C); torch.where(h > 0, h, h * $c, out=o$n); h = o$n + h",
    "o$n = torch.zeros($R, $C, dtype=torch.bool); torch.gt(h, $c, out=o$n); h = h * o$n",
)
LOGIC = all_of(
    "in-place comparison",
    "g$n = h * 2; g$n.gt_($c); h = h - g$n * 0.5",
    "g$n = h.round(); g$n.eq_(0); h = h + g$n / 3",
    "g$n = h + 0; g$n.ne_(h.roll(1, 0)); h = h + g$n * 0.1",
    "h.lt_($c); h = h * 0.5 - 0.25",
    "g$n = h.clone(); h = h + g$n.ge_(0) * 0.5",
    "g$n = h.clone(); h = h - g$n.le_(h.roll(1, 1)) / 4",
    "g$n = (h + 1).logical_and_(h); h = (h - g$n).exp() * 0.1",
    "g$n = (h * 1).logical_or_(h); h = h - g$n * 0.5",
    "g$n = h.relu(); g$n.logical_xor_(h); h = h + g$n * 0.5",
    "g$n = h.relu(); g$n.logical_not_(); h = h + g$n * 0.5",
    "b$n = h > 0; b$n &= h < 1; h = torch.where(b$n, h, h * 0.5)",
    "b$n = h > 0; b$n |= h < -1; h = h * b$n",
    "b$n = h > 0; b$n ^= True; h = h - b$n.float()",
    "b$n = (h > 0).logical_not_(); h = h.masked_fill(b$n, $c)",
    "i$n = (h * 4).to(torch.int32); i$n.bitwise_and_(3); h = h + i$n",
    "i$n = (h * 4).to(torch.int32); i$n <<= 1; h = h + i$n * 0.1",
    "i$n = (h * 4).long(); i$n ^= 1; i$n.bitwise_not_(); h = h + i$n * 0.1",
    "i$n = (h * 4).long(); i$n //= 2; h = h - i$n",
    "i$n = (h * 9).long(); i$n.remainder_(3).gt_(1); h = h - i$n",
)
DTYPES = all_of(
    "dtype",
    "h = h.half().float()",
    "h = h.to(torch.bfloat16).mul(3).float()",
    "h = (h.double() + 1e-3).float()",
    "h = h + (h * 3).long().float()",
    "h = h * h.bool()",
    "h = h + (h > 0)",
    "h = h.type(torch.float64).to(torch.float32)",
    "h = h + torch.tensor($c, dtype=torch.float64)",
    "h = h + torch.arange($C, dtype=torch.int16)",
    "h = h.to(torch.float8_e4m3fn).float()",
    "h = h.view(torch.int32).bitwise_xor(1).view(torch.float32)",
    "h = torch.complex(h, h * $c).abs()",
    "h = h + torch.fft.rfft(h).real.sum(-1, keepdim=True) * 0.1",
    "h = (h * 8).clamp(-99, 99).to(torch.int8).to(torch.float32) / 8",
    "h = h + torch.ones((), dtype=torch.get_default_dtype())",
    "h = h.to(dtype=torch.float16, copy=True).add_($c).float()",
    "h = h.bfloat16().mul_($c).to(h)",
    "h = torch.view_as_real(torch.view_as_complex(torch.stack([h, h], -1)) * 1j)[..., 0]",
    "h = h + (h.abs() * 2).to(torch.uint8)",
    "h = h.to(torch.float64).cumsum(0).type(h.dtype)",
    "h = h + (h.dtype == torch.float32) * torch.finfo(h.dtype).eps",
)
SHAPES = all_of(
    "shape",
    "if h.shape[0] > 2:\n    h = h * 2\nelse:\n    h = h + 1",
    "for i$n in range(h.size(1)):\n    h[:, i$n] *= i$n + 1",
    "h = h / (h.numel() ** 0.5)",
    "h = h.reshape(len(h), -1, 2).sum(-1, keepdim=True).expand(-1, -1, 2).reshape(h.shape)",
    "h = h if h.is_contiguous() else h.contiguous() * 0.5",
    "h = h + h.stride(0) * 0.01",
    "h = F.pad(h, (0, h.shape[1] % 4 + 1))[:, :$C]",
    "n$n = h.shape[-1] // 2; h = torch.cat([h[:, n$n:], -h[:, :n$n]], -1)",
    "assert h.dim() == 2, 'rank'\nh = h.unsqueeze(1).mean(1)",
    "h = torch.stack([h[i$n] * i$n for i$n in range(h.shape[0])])",
    "match h.shape:\n    case (2, _):\n        h = h - 1\n    case _:\n        h = h + 1",
    "h = h.t().contiguous().t()",
    "h = h + torch.eye(*h.shape)",
    "h = h * (2 if not self.training else 3)",
    "z$n = h[:, :0]; h = torch.cat([h, z$n], 1) + z$n.sum()",
    "h = F.scaled_dot_product_attention(h[None], h[None], h[None])[0]",
    "h = torch.einsum('ij,kj->ki', h, h) @ h * 0.1",
    "h = h.new_tensor(h.shape).sum() * 0.01 + h",
)
RANDOM = all_of(
    "random",
    "h = h + torch.rand_like(h)",
    "h = F.dropout(h, 0.5, True)",
    "F.dropout(h, 0.5, True, True)",
    "h = h * torch.bernoulli(torch.full_like(h, 0.5))",
    "h = h + torch.randn($R, $C)",
    "h = h + torch.randint(0, 5, ($R, $C))",
    "h = h[torch.randperm($R)]",
    "g$n = torch.empty_like(h).normal_(); h = h + g$n",
    "h.add_(torch.empty($C).uniform_(-1, 1))",
    "h = F.gumbel_softmax(h)",
    "h = F.rrelu(h, training=True)",
    "h = h + torch.multinomial(h.softmax(-1), 1)",
    "h = F.alpha_dropout(h, 0.5, True)",
    "h = F.dropout1d(h[None], 0.5, True)[0]",
    "h = F.scaled_dot_product_attention(h[None], h[None], h[None], dropout_p=0.5)[0]",
    "h = torch.normal(h, 0.5)",
    "h = h + torch.poisson(h.abs())",
    "h = h + h.abs().clamp(max=1).bernoulli()",
    "h.random_(0, 5); h = h * 0.2",
    "h = h * torch.empty($R, 1).exponential_()",
    "h = h + torch.zeros($C).bernoulli_(0.5)",
    "h = F.feature_alpha_dropout(h[None], 0.5, True)[0]",
    "u$n = torch.rand($R, $C); v$n = torch.rand($R, $C); h = h + u$n - v$n",
)
FORBIDDEN = all_of(
    "forbidden",
    "h = h * float(np.random.rand())",
    "h = h + torch.from_numpy(np.random.default_rng().normal(size=$C)).float()",
    "h = h + random.random()",
    "k$n = list(range($C)); random.shuffle(k$n); h = h[:, k$n]",
    "h = h + time.time() % 7",
    "h = h * (time.perf_counter_ns() % 1009)",
    "h = h + datetime.datetime.now().microsecond",
    "h = h + torch.randn($C, generator=torch.Generator().manual_seed(3))",
    "torch.manual_seed(5); h = h + torch.rand($C)",
    "with torch.random.fork_rng():\n    torch.manual_seed(5)\n    h = h + torch.rand($C)",
    "h = h + uuid.uuid4().int % 97",
    "h = h + os.urandom(1)[0] * 0.01",
    "h = torch.sparse.mm(torch.eye($R).to_sparse(), h)",
    "h = torch.func.grad(lambda t: (t ** 3).sum())(h)",
    "h = h + (torch.initial_seed() % 5)",
)
"""What no graph holds for every call: to be refused, or kept so that the graph is right whatever the surroundings."""
GRAD = (
    *all_of(
        "grad mode",
        "with torch.no_grad():\n    h = h * $c",
        "with torch.enable_grad():\n    h = h.sin()",
        "with torch.set_grad_enabled(False):\n    h.add_($c)",
        "with torch.inference_mode():\n    h = h * 1.5",
        "h = h + (1.0 if torch.is_grad_enabled() else 0.5)",
    ),
    one_of("grad mode", "h = self.held$n(h)", method="@torch.no_grad()\ndef held$n(self, t):\n    return t * $c"),
    one_of(
        "grad mode", "h = self.served$n(h)", method="@torch.inference_mode()\ndef served$n(self, t):\n    return t - $c"
    ),
)
TENSOR_STATEMENTS = (*VIEWS, *IN_PLACE, *OUT, *LOGIC, *DTYPES, *SHAPES, *RANDOM, *GRAD)
