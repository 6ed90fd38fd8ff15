"""NumPy on arrays that came from tensors, and back."""

import numpy as np
import torch

from tests.python.parity.corpus.registry import f, i, p, program


@program(f(2, 3), f(3, 3))
def there_and_back(x):
    a = x.numpy()
    c = a * 2 + 1
    return torch.from_numpy(c)


@program(f(2, 3), f(3, 3))
def shares_memory(x):
    a = x.numpy()
    a[0] = 7
    return x * 2


@program(f(2, 3), f(3, 2))
def elementwise_functions(x):
    a = x.numpy()
    return torch.from_numpy(np.sin(a) + np.exp(-a)), np.maximum(a, 0)


@program(f(2, 3), f(3, 2))
def reductions(x):
    a = x.numpy()
    return a.sum(), a.mean(axis=0), np.max(a), np.std(a, axis=1), x + 1


@program(np.arange(6.0).reshape(2, 3), np.ones((3, 2)))
def array_argument(a):
    t = torch.from_numpy(a)
    return t * 2, (t + 1).numpy()


@program((np.ones(3), f(3)), (np.zeros(2), f(2)))
def array_and_tensor(a, x):
    return torch.as_tensor(a) + x, torch.tensor(a)


@program(f(2, 3), f(2, 4))
def indexing_and_shape(x):
    a = x.numpy()
    return a[0], a[:, 1], a.T, a.reshape(-1), a.shape, a.dtype == np.float32, a.ndim, a.size


@program((f(2, 3), f(3, 2)), (f(3, 3), f(3, 3)))
def matrix_products(x, y):
    return torch.from_numpy(x.numpy() @ y.numpy()), np.dot(x.numpy(), y.numpy()), np.einsum("ij->ji", x.numpy())


@program((f(3), 2), (f(3), 3))
def numpy_scalars(x, n):
    k = np.float32(1.5) * n
    return x * float(k), np.int64(n), int(np.sqrt(16)), x * np.pi


@program(f(4), f(5))
def where_and_clip(x):
    a = x.numpy()
    return np.where(a > 0, a, 0), np.clip(a, -1, 1), torch.from_numpy(np.abs(a))


@program((f(2), 3), (f(2), 4))
def constant_arrays(x, n):
    grid = np.linspace(0, 1, n)
    return x * float(grid[-1]), torch.from_numpy(np.arange(n)), np.zeros((n, 2)).shape


@program(f(2, 3), f(3, 3))
def stack_and_concatenate(x):
    a = x.numpy()
    return np.concatenate([a, a]), np.stack([a, a * 2]), np.vstack([a, a])[0]


@program(i(5), i(4))
def integer_arrays(x):
    a = x.numpy()
    return a // 2, a % 3, np.argsort(a, kind="stable"), a.astype(np.float32) / 2


@program(f(3, grad=True), f(2, grad=True))
def detached_first(x):
    a = x.detach().numpy() * 2
    return x * torch.from_numpy(a)


@program(f(3, grad=True), f(2))
def numpy_of_grad_tensor_is_an_error(x):
    y = x * 2
    return y.numpy()


@program(p(3), p(4))
def mixed_pipeline(x):
    y = x.log()
    a = np.tanh(y.numpy())
    z = torch.from_numpy(a).exp()
    return z, np.asarray(z)


@program((f(2, 2), "float64"), (f(2, 2), "int32"))
def astype_by_name(x, name):
    return x.numpy().astype(name), torch.from_numpy(x.numpy().astype(getattr(np, name)))


@program(f(4), f(6))
def in_place_array(x):
    a = x.clone().numpy()
    a += 1
    a[::2] *= 3
    a.sort()
    return a, torch.from_numpy(a)


@program((f(3), [1, 2]), (f(3), [3]))
def array_from_list(x, values):
    a = np.array(values)
    return x * a.sum(), a.tolist(), torch.tensor(a)


@program(f(3), f(3))
def seeded_noise(x):
    rng = np.random.default_rng(0)
    return x + torch.from_numpy(rng.standard_normal(3).astype(np.float32)), np.random.rand()


@program(f(3), f(3))
def random_numbers_of_numpy(x):
    y = x * 2
    noise = np.random.rand(3).astype("float32")
    return y + torch.from_numpy(noise), float(np.random.uniform(1, 2)), np.random.randint(0, 10)
