"""torch.* and torch.nn.functional."""

import math

import torch
import torch.nn.functional as F

from tests.python.parity.corpus.registry import b, f, i, p, program


@program((f(2, 3), f(2, 3)), (f(4, 3), f(4, 3)), (f(2, 3), f(3)))
def pointwise_arithmetic(x, y):
    return torch.add(x, y, alpha=2), torch.sub(x, y), torch.mul(x, y), torch.div(x, y, rounding_mode="floor"), x % 2


@program(p(2, 3), p(4), f(3))
def unary_functions(x):
    return (
        torch.exp(x),
        torch.log(x),
        torch.sqrt(x),
        torch.rsqrt(x),
        torch.sin(x),
        torch.erf(x),
        torch.sigmoid(x),
        torch.sign(x),
    )


@program((f(2, 3), f(2, 3)), (i(3), i(3)))
def comparison_functions(x, y):
    return (
        torch.eq(x, y),
        x < y,
        torch.maximum(x, y),
        torch.where(x > y, x, y),
        torch.isclose(x, y),
        torch.equal(x, x) if False else 0,
    )


@program(f(2, 3, 4), f(3, 1, 2))
def reductions(x):
    return (
        x.sum(),
        torch.mean(x, dim=1),
        torch.amax(x, (0, 2)),
        torch.prod(x, 1, keepdim=True),
        torch.std(x),
        torch.norm(x),
    )


@program(f(3, 4), f(2, 5))
def named_tuple_returns(x):
    values, indices = torch.max(x, dim=1)
    top = torch.topk(x, 2)
    s = torch.sort(x, descending=True)
    return values, indices, top.values, s.indices, torch.min(x, 0).values, torch.mode(x.round(), 0)[0], top


@program((f(2, 3), f(3, 4)), (f(5, 3), f(3, 2)))
def matrix_products(x, y):
    return (
        torch.matmul(x, y),
        torch.mm(x, y),
        torch.einsum("ij,jk->ik", x, y),
        torch.addmm(torch.ones(1), x, y),
        torch.mv(x, y[:, 0]),
    )


@program((f(2, 3, 4), f(2, 4, 5)), (f(1, 2, 4), f(1, 4, 3)))
def batched_products(x, y):
    return torch.bmm(x, y), x @ y, torch.einsum("bij,bjk->bik", x, y), torch.baddbmm(torch.zeros(1), x, y, beta=0.5)


@program((f(2, 3), f(2, 3)), (f(1, 3), f(4, 3)))
def joining(x, y):
    return (
        torch.cat([x, y]),
        torch.cat((x, y), dim=0),
        torch.hstack([x[:1], y[:1]]),
        torch.vstack([x, y]),
        torch.stack([x[0], y[0]], -1),
    )


@program(f(6, 4), f(8, 4))
def splitting(x):
    a, c = torch.chunk(x, 2)
    parts = torch.split(x, 2, dim=1)
    first, *rest = torch.split(x, [1, x.shape[0] - 1])
    return a + c, parts, first, torch.unbind(parts[0], 1), torch.tensor_split(x, 2)


@program((f(2, 8), 4), (f(3, 8), 2))
def normalisation(x, groups):
    layer = F.layer_norm(x, (8,))
    group = F.group_norm(x, groups)
    return layer, group, F.normalize(x, dim=-1), F.softmax(x, -1), F.log_softmax(x, dim=0)


@program(f(2, 3), f(4))
def activations(x):
    return (
        F.relu(x),
        F.gelu(x),
        F.gelu(x, approximate="tanh"),
        F.silu(x),
        F.leaky_relu(x, 0.1),
        F.elu(x),
        F.softplus(x),
        F.hardtanh(x),
    )


@program((f(2, 3, 8, 8), f(4, 3, 3, 3)), (f(1, 3, 6, 6), f(2, 3, 3, 3)))
def convolution_and_pooling(x, w):
    y = F.conv2d(x, w, padding=1, stride=2)
    return (
        y,
        F.max_pool2d(x, 2),
        F.avg_pool2d(x, 2),
        F.adaptive_avg_pool2d(x, (2, 2)),
        F.interpolate(x, scale_factor=2.0),
    )


@program((f(4, 5, grad=True), i(4)), (f(3, 5, grad=True), i(3)))
def losses(logits, target):
    return (
        F.cross_entropy(logits, target),
        F.nll_loss(F.log_softmax(logits, 1), target),
        F.mse_loss(logits, logits.detach() * 2),
    )


@program((i(2, 3), f(5, 4)), (i(4, 1), f(5, 2)))
def embedding_and_one_hot(ids, table):
    return F.embedding(ids, table), F.one_hot(ids, 5), table[ids]


@program((f(1, 2, 4, 8), f(1, 2, 4, 8), f(1, 2, 4, 8)), (f(2, 2, 3, 8), f(2, 2, 3, 8), f(2, 2, 3, 8)))
def attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    by_hand = torch.softmax(scores, -1) @ v
    return by_hand, F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True)


@program((2, torch.float32), (3, torch.float64), (2, torch.int64))
def factories(n, dtype):
    ones = torch.ones(n, n, dtype=dtype)
    return (
        ones,
        torch.zeros_like(ones),
        torch.full((n,), 7, dtype=dtype),
        torch.eye(n, dtype=dtype),
        torch.arange(n),
        torch.linspace(0, 1, n),
    )


@program((f(2), [1, 2]), (f(2), [3, 4]))
def tensors_from_data(x, values):
    t = torch.tensor(values)
    return (
        x * t,
        torch.tensor(3.5),
        torch.tensor([[1, 2], [3, 4]]),
        torch.as_tensor(values),
        torch.tensor(values, dtype=torch.float64),
    )


@program((f(3, 3), 0), (f(4, 4), 1))
def triangles_and_diagonals(x, k):
    return torch.tril(x, k), torch.triu(x), torch.diag(x), torch.diagonal(x, k), torch.trace(x), torch.diag_embed(x)


@program((f(2, 3), i(2, 2, high=3)), (f(4, 3), i(4, 1, high=3)))
def gather_and_scatter(x, index):
    g = torch.gather(x, 1, index)
    return (
        g,
        torch.zeros_like(x).scatter(1, index, g),
        torch.zeros_like(x).scatter_add(1, index, torch.ones_like(g)),
        x.index_select(1, index[0]),
    )


@program((f(2, 3), b(2, 3)), (f(3, 3), b(3, 3)))
def masks(x, mask):
    return (
        x.masked_fill(mask, 0.0),
        torch.where(mask, x, torch.zeros(())),
        mask.logical_not(),
        (mask & ~mask).any(),
        mask.sum(),
    )


@program(f(2, 3), f(1, 3))
def cumulative(x):
    return torch.cumsum(x, 1), torch.cumprod(x, 0), torch.cummax(x, 1).values, torch.logcumsumexp(x, 1), torch.diff(x)


@program(f(4, 4), f(3, 3))
def linear_algebra(x):
    a = x @ x.T + torch.eye(x.shape[0]) * 3
    return (
        torch.linalg.inv(a),
        torch.det(a),
        torch.linalg.solve(a, x),
        torch.linalg.cholesky(a),
        torch.linalg.norm(x),
        torch.outer(x[0], x[1]),
    )


@program((f(2, 3), 2), (f(3, 3), -1))
def rolling_and_flipping(x, n):
    return (
        torch.roll(x, n, 1),
        torch.flip(x, [0]),
        torch.rot90(x),
        torch.repeat_interleave(x, 2, dim=0),
        torch.tile(x, (1, 2)),
    )


@program((f(3), f(3)), (f(2, 3), f(2, 3)))
def out_argument(x, y):
    out = torch.empty_like(x)
    torch.add(x, y, out=out)
    same = torch.mul(x, 2, out=y)
    return out, same, y


@program((f(2, 3), torch.float64), (f(2, 3), torch.int32))
def dtypes_and_promotion(x, dtype):
    y = x.to(dtype)
    return (
        y + 1.5,
        y / 2,
        torch.result_type(y, x),
        torch.promote_types(dtype, torch.float16),
        torch.can_cast(torch.float32, dtype),
        torch.finfo(torch.float32).max,
    )


@program((f(2, 3), f(2, 3)), (f(4, 3), f(4, 3)))
def distances(x, y):
    return torch.cdist(x, y), F.cosine_similarity(x, y), F.pairwise_distance(x, y), torch.dot(x[0], y[0])


@program((f(2, 2), 0), (f(2, 2), 1))
def boolean_questions(x, k):
    return (
        torch.is_tensor(x),
        torch.is_floating_point(x),
        x.numel(),
        torch.numel(x),
        torch.is_complex(x),
        torch.broadcast_shapes((2, 1), (1, 3)),
    )


@program((f(2, 4),), (f(3, 4),))
def complex_tensors(x):
    z = torch.complex(x[:, :2], x[:, 2:])
    return z * 2j, z.real, z.abs(), torch.view_as_real(z), z.conj() * z, torch.fft.rfft(x)


@program((f(3), f(4)), (f(2), f(2)))
def meshgrids(x, y):
    a, c = torch.meshgrid(x, y, indexing="ij")
    return a + c, torch.cartesian_prod(x, y), torch.stack([a, c])


@program((f(2, 3), 1.0), (f(2, 3), 0.5))
def clamping(x, limit):
    return torch.clamp(x, -limit, limit), x.clamp(min=0), x.clip(max=limit), torch.nan_to_num(x / 0)
