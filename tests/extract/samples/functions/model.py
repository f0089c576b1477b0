import torch
from torch import device
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: torch.Tensor, L_w_: torch.nn.parameter.Parameter, L_p_: torch.Tensor, L_ids_: torch.Tensor):
        sdpa = torch._C._nn.scaled_dot_product_attention(L_x_, L_x_, L_x_, attn_mask=None, dropout_p=0.0, is_causal=True, scale=0.125)
        pad = torch._C._nn.pad(sdpa, (1, 1, 0, 0), "constant", 0)
        pad2 = torch._C._nn.pad(L_x_, [0, 0, 0, 1])
        ap = torch._C._nn.avg_pool2d(L_x_, 2, 2, 0, False, True)
        mp = torch.nn.functional.max_pool2d(L_x_, 2, 2, 0, 1, ceil_mode=False, return_indices=False)
        aap = torch.nn.functional.adaptive_avg_pool2d(L_x_, (1, 1))
        item = L_p_.item()
        d = torch.nn.functional.dropout(L_x_, p=item, training=False)
        e = L_x_.eq(1).all()
        q = torch.where(L_x_ > 0, 1, 0)
        tt = L_x_.transpose(1, 2).type(torch.float32).type_as(L_x_).to("cuda:0", torch.float16).to(dtype=torch.float32, device=device(type="cuda", index=0))
        out = torch.einsum("bhqd,bhkd->bhqk", L_x_, L_x_)
        spl = torch.functional.split(L_x_, [2, 2], dim=1)
        a, b = spl[0], spl[1]
        nrm = torch.functional.norm(L_x_, p=2, dim=-1, keepdim=True)
        var_mean = torch.var_mean(L_x_, [2, 3], keepdim=True)
        v = var_mean[0]
        emb = torch.nn.functional.embedding(L_ids_, L_w_, 0, None, 2.0, False, False)
        t = torch.tensor(0.5, device=device(type="cuda", index=0), dtype=torch.float32)
        msk = torch.tensor(-3.4028234663852886e38)
        y = L_x_.masked_fill(L_x_ > 0, -3.4028234663852886e38)
        ar = torch.arange(8, device=device(type="cuda", index=0))
        cmp = ar[None, :] <= ar[:, None]
        cmp2 = ar < ar.view(-1, 1)
        cmp3 = cmp.__and__(cmp2)
        cmp4 = cmp3.to(torch.bool)
        cmp4 &= cmp
        iand = cmp4
        iand |= cmp2
        ior = iand
        no = torch._C._functorch._vmap_increment_nesting
        gn = torch.nn.functional.group_norm(L_x_, 2, None, None, 1e-05)
        ip = torch.nn.functional.interpolate(L_x_, None, 2.0, "bilinear", False, recompute_scale_factor=None)
        ip2 = torch.nn.functional.interpolate(L_x_, size=(16, 16), mode="bicubic", align_corners=False)
        lerp = torch.lerp(L_x_, L_x_, 0.5)
        sym = torch.sym_sum([1, 2])
        cu = torch.cumsum(L_ids_, dim=1, dtype=torch.int64)
        sl = L_x_[(Ellipsis, slice(0, 2, None))]
        sl2 = L_x_[(0, slice(None, None, None), None)]
        ind = L_x_[(slice(None, None, None), torch.tensor([0, 1]))]
        lin = torch.linspace(-1, 1, 5, device=device(type="cuda", index=0))
        mg = torch.functional.meshgrid(lin, lin, indexing="ij")
        mg0 = mg[0]
        dv = torch.div(ar, 2, rounding_mode="floor")
        fd = ar.__floordiv__(2)
        nn = L_x_.new_zeros((2, 3), dtype=torch.int64)
        ex = L_x_.expand(-1, 4, -1, 8)
        sz = L_x_.size(0)
        rr = L_x_.reshape(sz, -1, 8)
        sp = torch.nn.functional.softplus(L_x_, 1.0, 20)
        um = torch._C._nn.one_hot(L_ids_, num_classes=10)
        bb = bool(True)
        return (pad, pad2, ap, mp, aap, d, e, q, tt, out, a, b, nrm, v, emb, t, msk, y, ior, gn, ip, ip2, lerp, cu, sl, sl2, ind, mg0, dv, fd, nn, ex, rr, sp, um)
