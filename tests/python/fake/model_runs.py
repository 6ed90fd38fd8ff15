"""Runs small models of the transformers library on fakes of their parameters and compares with a real run.

A separate program, because it checks which modules the fake runs import:

    python model_runs.py [NAME ...]

prints one JSON object per model: the differences, the tiers that were used, the modules that were imported.
"""

import contextlib
import json
import sys

import torch
import transformers
from torch.utils import _pytree as pytree

from stator import _C

_fake = _C._fake

# Importing these takes a second or two; a fake run must not do it.
HEAVY = ("sympy", "torch._dynamo", "torch._inductor")

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
WORDS = {"vocab_size": 100, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def tokens():
    return torch.arange(3, 23).reshape(2, 10)


def pixels(size):
    return torch.linspace(-1, 1, 2 * 3 * size * size).reshape(2, 3, size, size)


def bert(attention):
    config = transformers.BertConfig(**SIZES, **WORDS, attn_implementation=attention)
    return transformers.BertForMaskedLM(config), {"input_ids": tokens(), "labels": tokens()}


def gpt2(attention):
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, **WORDS, attn_implementation=attention)
    return transformers.GPT2LMHeadModel(config), {"input_ids": tokens(), "labels": tokens()}


def llama(attention):
    config = transformers.LlamaConfig(**SIZES, **WORDS, num_key_value_heads=2, attn_implementation=attention)
    return transformers.LlamaForCausalLM(config), {"input_ids": tokens(), "labels": tokens()}


def t5(attention):
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, **WORDS
    )
    if attention != "eager":
        return None
    return transformers.T5ForConditionalGeneration(config), {"input_ids": tokens(), "decoder_input_ids": tokens()}


def vit(attention):
    config = transformers.ViTConfig(**SIZES, image_size=32, patch_size=8, attn_implementation=attention)
    return transformers.ViTForImageClassification(config), {"pixel_values": pixels(32)}


def resnet(attention):
    if attention != "eager":
        return None
    config = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1])
    return transformers.ResNetForImageClassification(config), {"pixel_values": pixels(64)}


def convnext(attention):
    if attention != "eager":
        return None
    config = transformers.ConvNextConfig(hidden_sizes=[16, 32], depths=[1, 1], num_stages=2)
    return transformers.ConvNextForImageClassification(config), {"pixel_values": pixels(64)}


BUILDERS = {f.__name__: f for f in (bert, gpt2, llama, t5, vit, resnet, convnext)}


def describe(value):
    if not isinstance(value, torch.Tensor):
        return repr(value)
    strides = [0 if size == 1 else stride for size, stride in zip(value.shape, value.stride())]
    return [list(value.shape), strides, str(value.dtype), str(value.device), value.requires_grad]


def run(model, state, inputs, training):
    """Metadata of all outputs and, in training, of the gradients of all parameters."""
    options = {"use_cache": False} if "input_ids" in inputs else {}
    with torch.set_grad_enabled(training):
        outputs = torch.func.functional_call(model, state, (), {**inputs, **options})
    found = {"outputs": [describe(value) for value in pytree.tree_leaves(dict(outputs))]}
    if training:
        loss = outputs["loss"] if outputs.get("loss") is not None else outputs["logits"].sum()
        names = [name for name, value in state.items() if value.requires_grad]
        grads = torch.autograd.grad(loss, [state[name] for name in names], allow_unused=True)
        found["grads"] = {name: describe(grad) for name, grad in zip(names, grads)}
    return found


def fakes_of(state, inputs):
    tensors = [*state.values(), *inputs.values()]
    made = _fake.from_reals(tensors)
    return dict(zip(state, made)), dict(zip(inputs, made[len(state) :]))


@contextlib.contextmanager
def as_in_a_capture():
    """What a capture does around dispatch: `is_compiling` is true, and the values that a program
    writes as literals (`torch.tensor(...)`) become constants, because their constructor bypasses the dispatcher."""
    construct, is_compiling = torch.tensor, torch.compiler.is_compiling

    def constant(*args, **kwargs):
        before = _fake.scope(False)
        try:
            real = construct(*args, **kwargs)
        finally:
            _fake.scope(before)
        return _fake.from_reals([real])[0] if before else real

    torch.tensor, torch.compiler.is_compiling = constant, lambda: True
    try:
        yield
    finally:
        torch.tensor, torch.compiler.is_compiling = construct, is_compiling


def forget_heavy_modules():
    # transformers imports them itself; they are removed from sys.modules, so that a second import is noticed.
    for name in [name for name in sys.modules if name in HEAVY or name.startswith(tuple(h + "." for h in HEAVY))]:
        del sys.modules[name]


def compare(name, attention, training):
    made = BUILDERS[name](attention)
    if made is None:
        return None
    model, inputs = made
    model.train(training)
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    state = {key: value.detach().requires_grad_(value.requires_grad) for key, value in state.items()}
    expected = run(model, state, inputs, training)
    fake_state, fake_inputs = fakes_of(state, inputs)
    forget_heavy_modules()
    _fake.reset_tier_counts()
    before = _fake.scope(True)
    try:
        found = run(model, fake_state, fake_inputs, training)
        poison = _fake.take_poison()
    except Exception as error:  # noqa: BLE001 - every failure is a result to report
        found = {"error": f"{type(error).__name__}: {error}"}
        poison = _fake.take_poison()
    finally:
        _fake.scope(before)
    return {
        "model": name,
        "attention": attention,
        "training": training,
        "equal": found == expected,
        "found": found if found != expected else None,
        "expected": expected if found != expected else None,
        "poison": poison,
        "tiers": _fake.tier_counts(),
        "imported": [heavy for heavy in HEAVY if heavy in sys.modules],
    }


def main():
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    if _fake.install():
        raise SystemExit(_fake.install())
    for name in sys.argv[1:] or BUILDERS:
        for attention in ("sdpa", "eager"):
            for training in (True, False):
                with as_in_a_capture():
                    result = compare(name, attention, training)
                if result is not None:
                    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
