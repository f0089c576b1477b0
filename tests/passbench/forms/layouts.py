"""Layouts: strides as arguments, channels last, views of views, outputs in another order."""

import torch

from tests.passbench.forms import ADD, HEAD, UNARY, Form, one

STRIDED = """
@triton.jit
def strided_copy(x_ptr, out_ptr, rows, cols, sxr, sxc, sor, soc, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, col = at // cols, at % cols
    inside = at < rows * cols
    tl.store(out_ptr + row * sor + col * soc, tl.load(x_ptr + row * sxr + col * sxc, mask=inside), mask=inside)


"""

FORMS = {
    "transposed_copy": Form(source=f"""{HEAD}{STRIDED}
@torch.fx.wrap
def run(x):
    t = x.t()
    rows, cols = t.shape
    out = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
    strided_copy[(triton.cdiv(rows * cols, 64),)](
        t, out, rows, cols, t.stride(0), t.stride(1), out.stride(0), out.stride(1), BLOCK=64
    )
    return out
""", eager=lambda x: x.t().contiguous(), inputs=one),
    "strides_unpacked": Form(source=f"""{HEAD}{STRIDED}
@torch.fx.wrap
def run(x):
    view = x.transpose(-1, -2)
    out = torch.empty(view.shape, dtype=view.dtype, device=view.device)
    strided_copy[(triton.cdiv(view.numel(), 64),)](view, out, *view.shape, *view.stride(), *out.stride(), 64)
    return out
""", eager=lambda x: x.t().contiguous(), inputs=one),
    "named_strides": Form(source=f"""{HEAD}{STRIDED}
@torch.fx.wrap
def run(x):
    view = x.permute(1, 0)
    out = view.new_empty(view.shape)
    strides = dict(sxr=view.stride(0), sxc=view.stride(1), sor=out.stride(0), soc=out.stride(1))
    config = {{"BLOCK": 64, **strides}}
    strided_copy[(triton.cdiv(view.numel(), config["BLOCK"]),)](view, out, view.size(0), view.size(1), **config)
    return out
""", eager=lambda x: x.t().contiguous(), inputs=one),
    "channels_last": Form(source=f"""{HEAD}{UNARY}
@torch.fx.wrap
def run(x):
    if x.is_contiguous(memory_format=torch.channels_last):
        out = torch.empty_like(x, memory_format=torch.channels_last)
    else:
        x = x.contiguous()
        out = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
    return out
""", eager=torch.square, inputs=lambda: (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),)),
    "same_strides": Form(source=f"""{HEAD}{UNARY}
@torch.fx.wrap
def run(x):
    out = torch.empty_strided(x.size(), x.stride(), device=x.device, dtype=x.dtype)
    square_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
    return out
""", eager=torch.square, inputs=lambda: (torch.randn(8, 4).t(),)),
    "slices": Form(source=f"""{HEAD}{ADD}
@torch.fx.wrap
def run(x):
    half = x.shape[1] // 2
    left, right = x[:, :half].contiguous(), x[..., half:].contiguous()
    out = torch.empty_like(left)
    add_kernel[(triton.cdiv(out.numel(), 64),)](left, right, out, out.numel(), 64)
    return out
""", eager=lambda x: x[:, :20] + x[:, 20:], inputs=one),
    "chunks": Form(source=f"""{HEAD}{ADD}
@torch.fx.wrap
def run(x):
    left, right = x.chunk(2, dim=-1)
    left = left.contiguous()
    right = right.contiguous()
    out = torch.empty_like(left)
    add_kernel[(triton.cdiv(out.numel(), 64),)](left, right, out, out.numel(), 64)
    return out
""", eager=lambda x: x[:, :20] + x[:, 20:], inputs=one),
    "expanded": Form(source=f"""{HEAD}{ADD}
@torch.fx.wrap
def run(x, y):
    y = y.expand_as(x).contiguous()
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(out.numel(), 64),)](x, y, out, out.numel(), 64)
    return out
""", eager=torch.add, inputs=lambda: (torch.randn(6, 40), torch.randn(1, 40))),
    "view_of_view": Form(source=f"""{HEAD}{UNARY}
@torch.fx.wrap
def run(x):
    b, s, d = x.shape[0], x.shape[1] // 8, 8
    heads = x.view(b, s, d).transpose(1, 2).reshape(b * d, s)
    out = torch.empty_like(heads)
    square_kernel[(triton.cdiv(out.numel(), 64),)](heads, out, out.numel(), 64)
    return out.view(b, d, s).permute(0, 2, 1).reshape(b, s * d)
""", eager=torch.square, inputs=one),
    "unsqueezed_output": Form(source=f"""{HEAD}{UNARY}
@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(out.numel(), 64),)](x, out, out.numel(), 64)
    return out.unsqueeze(0).unsqueeze(-1)
""", eager=lambda x: torch.square(x)[None, ..., None], inputs=one),
    "offset_and_alignment": Form(source=f"""{HEAD}{UNARY}
@torch.fx.wrap
def run(x):
    aligned = x.data_ptr() % 16 == 0 and x.storage_offset() == 0
    block = 128 if aligned else 64
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(out.numel(), block),)](x, out, out.numel(), block)
    return out
""", eager=torch.square, inputs=one),
}  # fmt: skip
