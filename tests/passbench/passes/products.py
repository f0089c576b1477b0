"""Passes that multiply matrices: linear layers, batched products, attention."""

import torch
import torch.nn.functional as F

from tests.passbench.passes import CONTRACT, HEAD, Pass


def attention_inputs() -> tuple[torch.Tensor, ...]:
    """Queries, keys and values."""
    return torch.randn(1, 2, 12, 16), torch.randn(1, 2, 12, 16), torch.randn(1, 2, 12, 16)


PASSES = {
    "linear_grouped": Pass(
        source=HEAD
        + """
def pattern(x, w, b):
    return torch.nn.functional.linear(x, w, b)


def _cfgs():
    return [
        triton.Config({'BLOCK_M': bm, 'BLOCK_N': bn, 'BLOCK_K': 16, 'GROUP_M': 4}, num_stages=s, num_warps=w)
        for bm, bn, s, w in [(16, 16, 3, 4), (32, 16, 4, 4), (16, 32, 5, 2)]
    ]


@triton.autotune(configs=_cfgs(), key=['M', 'N', 'K'])
@triton.jit
def linear_kernel(
    a_ptr, b_ptr, bias_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bn, stride_bk, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    num_pid_in_group = GROUP_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_bn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if HAS_BIAS:
        accumulator += tl.load(bias_ptr + offs_bn)[None, :]
    c = accumulator.to(c_ptr.dtype.element_ty)
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


@torch.fx.wrap
def linear(x, w, b):
    lead = x.shape[:-1]
    a = x.reshape(-1, x.shape[-1])
    M, K = a.shape
    N = w.shape[0]
    c = torch.empty((M, N), device=x.device, dtype=x.dtype)
    grid = lambda META: (triton.cdiv(M, META['BLOCK_M']) * triton.cdiv(N, META['BLOCK_N']),)
    linear_kernel[grid](
        a, w, b, c, M, N, K,
        a.stride(0), a.stride(1), w.stride(0), w.stride(1), c.stride(0), c.stride(1),
        HAS_BIAS=b is not None,
    )
    return c.reshape(*lead, N)
"""
        + CONTRACT.format(arguments="x, w, b", function="linear"),
        eager=F.linear,
        inputs=lambda: (torch.randn(2, 9, 24), torch.randn(20, 24), torch.randn(20)),
    ),
    "batched_product": Pass(
        source=HEAD
        + '''
def pattern(a, b):
    return torch.matmul(a, b)


@triton.jit
def bmm_kernel(A, B, C, M, N, K, sab, sam, sak, sbb, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm, pn, pb = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        kk = k0 + rk
        a = tl.load(A + pb * sab + rm[:, None] * sam + kk[None, :] * sak,
                    mask=(rm[:, None] < M) & (kk[None, :] < K), other=0.0)
        b = tl.load(B + pb * sbb + kk[:, None] * sbk + rn[None, :] * sbn,
                    mask=(kk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b, allow_tf32=False)
    tl.store(C + pb * M * N + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@torch.fx.wrap
def bmm(a, b):
    """a: (..., M, K), b: (..., K, N)"""
    batch_dims = tuple(a.shape[:-2])
    M, K = a.shape[-2:]
    N = b.shape[-1]
    a3, b3 = a.reshape(-1, M, K), b.reshape(-1, K, N)
    nb = a3.shape[0]
    c = torch.empty((nb, M, N), dtype=a.dtype, device=a.device)
    BM = BN = 16
    bmm_kernel[(triton.cdiv(M, BM), triton.cdiv(N, BN), nb)](a3, b3, c, M, N, K, *a3.stride(), *b3.stride(), BM, BN, 16)
    return c.view(*batch_dims, M, N)
'''
        + CONTRACT.format(arguments="a, b", function="bmm"),
        eager=torch.matmul,
        inputs=lambda: (torch.randn(2, 3, 10, 20), torch.randn(2, 3, 20, 12)),
    ),
    "attention_by_blocks": Pass(
        source=HEAD
        + """
def pattern(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False)


def replacement_args(q, k, v):
    return (q, k, v)


@triton.jit
def flash_kernel(Q, K, V, O, sm_scale, N_CTX, stride_h, stride_m,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr):
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    base = off_hz * stride_h
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    q = tl.load(Q + base + offs_m[:, None] * stride_m + offs_d[None, :], mask=offs_m[:, None] < N_CTX, other=0.0)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504
    for start_n in range(0, N_CTX, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        offs_n = start_n + tl.arange(0, BLOCK_N)
        k = tl.load(K + base + offs_n[:, None] * stride_m + offs_d[None, :], mask=offs_n[:, None] < N_CTX, other=0.0)
        qk = tl.dot(q, tl.trans(k), input_precision="ieee") * qk_scale
        qk = tl.where(offs_n[None, :] < N_CTX, qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(V + base + offs_n[:, None] * stride_m + offs_d[None, :], mask=offs_n[:, None] < N_CTX, other=0.0)
        acc += tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m_i = m_ij
    acc = acc / l_i[:, None]
    tl.store(O + base + offs_m[:, None] * stride_m + offs_d[None, :], acc.to(O.type.element_ty),
             mask=offs_m[:, None] < N_CTX)


@torch.fx.wrap
def flash_attention(q, k, v):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    B, H, S, D = q.shape
    assert D in {16, 32, 64, 128}, f"unsupported head dim: {D}"
    o = torch.empty_like(q)
    BLOCK_M, BLOCK_N = (16, 16) if D <= 64 else (32, 16)
    grid = (triton.cdiv(S, BLOCK_M), B * H, 1)
    flash_kernel[grid](q, k, v, o, 1.0 / math.sqrt(D), S, q.stride(1), q.stride(2), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
                       HEAD_DIM=D, num_warps=4, num_stages=2)
    return o


def replacement_func():
    return flash_attention
""",
        eager=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False),
        inputs=attention_inputs,
    ),
    "attention_written_out": Pass(
        source=HEAD
        + """
def pattern(q, k, v):
    kt = k.transpose(-2, -1)
    s = torch.matmul(q, kt)
    s = s * 0.25
    p = torch.nn.functional.softmax(s, dim=-1, dtype=torch.float32)
    return torch.matmul(p, v)


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BS: tl.constexpr):
    row, head = tl.program_id(0), tl.program_id(1)
    d, s = tl.arange(0, D), tl.arange(0, BS)
    live = s < S
    q = tl.load(q_ptr + (head * S + row) * D + d).to(tl.float32)
    k = tl.load(k_ptr + head * S * D + s[:, None] * D + d[None, :], mask=live[:, None], other=0.0)
    w = tl.sum(q[None, :] * k, axis=1) * scale
    w = tl.where(live, w, -float('inf'))
    w = tl.softmax(w)
    v = tl.load(v_ptr + head * S * D + s[:, None] * D + d[None, :], mask=live[:, None], other=0.0)
    tl.store(o_ptr + (head * S + row) * D + d, tl.sum(w[:, None] * v, axis=0))


@torch.fx.wrap
def attention(q, k, v):
    (b, h, s, d), o = q.shape, torch.empty_like(q)
    attend[(s, b * h)](q, k, v, o, s, d ** -0.5, D=d, BS=triton.next_power_of_2(s))
    return o
"""
        + CONTRACT.format(arguments="q, k, v", function="attention"),
        eager=lambda q, k, v: torch.matmul(
            F.softmax(torch.matmul(q, k.transpose(-2, -1)) * 0.25, dim=-1, dtype=torch.float32), v
        ),
        inputs=attention_inputs,
    ),
    "pointwise_convolution": Pass(
        source=HEAD
        + """
def pattern(x, w, b):
    return torch.conv2d(x, w, b, (1, 1), (0, 0), (1, 1), 1)


def replacement_args(x, w, b):
    return (w, b, x)


@triton.jit
def conv1x1(x_ptr, w_ptr, b_ptr, o_ptr, CI, CO, HW, BCO: tl.constexpr, BHW: tl.constexpr, BCI: tl.constexpr):
    p = tl.program_id(0) * BHW + tl.arange(0, BHW)
    co = tl.program_id(1) * BCO + tl.arange(0, BCO)
    n = tl.program_id(2)
    acc = tl.zeros((BCO, BHW), dtype=tl.float32)
    for c0 in range(0, CI, BCI):
        ci = c0 + tl.arange(0, BCI)
        w = tl.load(w_ptr + co[:, None] * CI + ci[None, :], mask=(co[:, None] < CO) & (ci[None, :] < CI), other=0.0)
        x = tl.load(x_ptr + n * CI * HW + ci[:, None] * HW + p[None, :],
                    mask=(ci[:, None] < CI) & (p[None, :] < HW), other=0.0)
        acc = tl.dot(w, x, acc, input_precision='ieee')
    acc += tl.load(b_ptr + co, mask=co < CO, other=0.0)[:, None]
    tl.store(o_ptr + n * CO * HW + co[:, None] * HW + p[None, :], acc, mask=(co[:, None] < CO) & (p[None, :] < HW))


@torch.fx.wrap
def conv_pointwise(weight, bias, x):
    N, CI, H, W = x.shape
    CO = weight.shape[0]
    weight = weight.reshape(CO, CI)
    out = torch.empty((N, CO, H, W), dtype=x.dtype, device=x.device)
    conv1x1[(triton.cdiv(H * W, 32), triton.cdiv(CO, 16), N)](x, weight, bias, out, CI, CO, H * W, 16, 32, 16)
    return out


def replacement_func():
    return conv_pointwise
""",
        eager=lambda x, w, b: torch.conv2d(x, w, b, (1, 1), (0, 0), (1, 1), 1),
        inputs=lambda: (torch.randn(2, 12, 5, 7), torch.randn(10, 12, 1, 1), torch.randn(10)),
        args=lambda x, w, b: (w, b, x),
    ),
    "row_times_matrix": Pass(
        source=HEAD
        + """
@triton.jit
def gemv(x_ptr, w_ptr, o_ptr, N, K, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    k = tl.arange(0, BLOCK_K)
    while tl.min(k) < K:
        x = tl.load(x_ptr + k, mask=k < K, other=0.0)
        w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
        acc += x[None, :] * w
        k += BLOCK_K
    tl.store(o_ptr + n, tl.sum(acc, 1), mask=n < N)


@torch.fx.wrap
def matvec(x, w):
    N, K = w.shape
    assert x.shape[-1] == K
    out = torch.empty((*x.shape[:-1], N), dtype=x.dtype, device=x.device)
    gemv[(triton.cdiv(N, 16), )](x, w, out, N, K, BLOCK_N=16, BLOCK_K=32)
    return out


def pattern(x, w):
    return torch.nn.functional.linear(x, w, None)
"""
        + CONTRACT.format(arguments="x, w", function="matvec"),
        eager=lambda x, w: F.linear(x, w, None),
        inputs=lambda: (torch.randn(1, 40), torch.randn(20, 40)),
    ),
}
