"""Architectures of the transformers library, small and with random weights: name, class, configuration, inputs.

Shared by the tests and by the `graphs` topic. A row is only data. What all models of a kind share (the inputs, the
output that the loss is computed from) is stored in the kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from .models import Case, transformers_model

VOCABULARY = 64

Inputs = dict[str, Any]


def _tokens(seed: int, batch: int, length: int) -> torch.Tensor:
    # Small numbers are reserved for special tokens.
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(5, VOCABULARY, (batch, length), generator=generator)


def _floats(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def text(variant: int, batch: int = 2, length: int = 8) -> Inputs:
    """Tokens with a mask whose second row ends early. From variant 2 on the length differs."""
    ids = _tokens(variant, batch, length + variant // 2)
    mask = torch.ones_like(ids)
    mask[1:, -2:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def tokens_only(variant: int) -> Inputs:
    return {"input_ids": text(variant)["input_ids"]}


def recurrent(variant: int) -> Inputs:
    return tokens_only(variant) | {"use_cache": False}


def causal(variant: int) -> Inputs:
    return text(variant) | {"use_cache": False}


def pair(variant: int) -> Inputs:
    return text(variant) | {"decoder_input_ids": _tokens(variant + 10, 2, 6), "use_cache": False}


def pixels(size: int, channels: int = 3) -> Callable[[int], Inputs]:
    return lambda variant: {"pixel_values": _floats(variant, 2 + variant // 2, channels, size, size)}


def image_and_text(variant: int) -> Inputs:
    return text(variant) | pixels(16)(variant % 2)


def waveform(variant: int) -> Inputs:
    return {"input_values": _floats(variant, 2, 800 + 160 * (variant // 2))}


def spectrogram(variant: int) -> Inputs:
    return {
        "input_features": _floats(variant, 2 + variant // 2, 16, 40),
        "decoder_input_ids": _tokens(variant, 2 + variant // 2, 6),
        "use_cache": False,
    }


@dataclass(frozen=True)
class Kind:
    """What models of one kind share: inputs, the output for the loss, and how text is generated (None: not at all)."""

    name: str
    inputs: Callable[[int], Inputs]
    output: str
    prompt: Callable[[], Inputs] | None = None


DECODER = Kind("text decoder", causal, "logits", lambda: {"input_ids": _tokens(7, 2, 5)})
RECURRENT = Kind("state space", recurrent, "logits", DECODER.prompt)
ENCODER = Kind("text encoder", text, "last_hidden_state")
PAIR = Kind("encoder-decoder", pair, "logits", DECODER.prompt)
VISION = Kind("vision", pixels(32), "last_hidden_state")
SMALL_VISION = Kind("vision", pixels(16), "last_hidden_state")
BOTH = Kind("vision and text", image_and_text, "logits_per_text")
AUDIO = Kind("audio", waveform, "last_hidden_state")
SPEECH = Kind("audio", spectrogram, "logits", lambda: {"input_features": _floats(7, 2, 16, 40)})


@dataclass(frozen=True)
class Architecture:
    """A row. `settings` go to the configuration. `peer_graphs` is the number of graphs that torch.compile makes of two
    calls in eval, and of two training steps.
    """

    name: str
    kind: Kind
    model: str
    config: str
    settings: dict[str, Any] = field(default_factory=dict)
    peer_graphs: tuple[int, int] = (1, 1)

    def case(self) -> Case:
        make = transformers_model(self.model, self.config, **self.settings)
        return Case(self.name, make, self.kind.inputs, self.kind.output)


WORDS = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
DENSE = WIDTH | {"intermediate_size": 48}
PLAIN = WORDS | DENSE | {"max_position_embeddings": 64}
GROUPED = PLAIN | {"num_key_value_heads": 1}
HEADS_OF_16 = GROUPED | {"head_dim": 16}
SEQ2SEQ = WORDS | {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
T5_SIZES = WORDS | {
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 48,
    "num_layers": 1,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
IMAGE = DENSE | {"image_size": 16, "patch_size": 8}

ARCHITECTURES = [
    # Text decoders.
    Architecture(
        "GPT-2",
        DECODER,
        "GPT2LMHeadModel",
        "GPT2Config",
        WORDS | {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 2},
    ),
    Architecture(
        "GPT-Neo",
        DECODER,
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        WORDS
        | {
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 2,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 4,
            "max_position_embeddings": 64,
        },
    ),
    Architecture(
        "GPT-J",
        DECODER,
        "GPTJForCausalLM",
        "GPTJConfig",
        WORDS | {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 2, "rotary_dim": 8},
    ),
    Architecture("GPT-NeoX", DECODER, "GPTNeoXForCausalLM", "GPTNeoXConfig", PLAIN),
    Architecture(
        "OPT",
        DECODER,
        "OPTForCausalLM",
        "OPTConfig",
        WORDS | WIDTH | {"ffn_dim": 48, "word_embed_proj_dim": 32, "max_position_embeddings": 64},
        (1, 4),
    ),
    Architecture(
        "BLOOM", DECODER, "BloomForCausalLM", "BloomConfig", WORDS | {"hidden_size": 32, "n_layer": 2, "n_head": 2}
    ),
    Architecture(
        "Falcon", DECODER, "FalconForCausalLM", "FalconConfig", WORDS | WIDTH | {"max_position_embeddings": 64}
    ),
    Architecture("Llama", DECODER, "LlamaForCausalLM", "LlamaConfig", GROUPED),
    Architecture("Mistral", DECODER, "MistralForCausalLM", "MistralConfig", GROUPED | {"sliding_window": 6}),
    Architecture("Qwen2", DECODER, "Qwen2ForCausalLM", "Qwen2Config", GROUPED),
    Architecture("Qwen3", DECODER, "Qwen3ForCausalLM", "Qwen3Config", HEADS_OF_16),
    Architecture("Gemma 2", DECODER, "Gemma2ForCausalLM", "Gemma2Config", HEADS_OF_16 | {"sliding_window": 6}),
    Architecture(
        "Gemma 3",
        DECODER,
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        HEADS_OF_16 | {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    Architecture("Phi", DECODER, "PhiForCausalLM", "PhiConfig", PLAIN),
    Architecture("Phi-3", DECODER, "Phi3ForCausalLM", "Phi3Config", GROUPED),
    Architecture("StableLM", DECODER, "StableLmForCausalLM", "StableLmConfig", GROUPED),
    Architecture("OLMo 2", DECODER, "Olmo2ForCausalLM", "Olmo2Config", GROUPED),
    Architecture("Cohere", DECODER, "CohereForCausalLM", "CohereConfig", GROUPED),
    # Mixtures of experts.
    Architecture(
        "Mixtral",
        DECODER,
        "MixtralForCausalLM",
        "MixtralConfig",
        GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    Architecture(
        "Qwen2 MoE",
        DECODER,
        "Qwen2MoeForCausalLM",
        "Qwen2MoeConfig",
        GROUPED
        | {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "shared_expert_intermediate_size": 24,
        },
    ),
    Architecture(
        "DeepSeek V2",
        DECODER,
        "DeepseekV2ForCausalLM",
        "DeepseekV2Config",
        PLAIN
        | {
            "num_key_value_heads": 2,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_shared_experts": 1,
            "moe_intermediate_size": 24,
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_nope_head_dim": 8,
            "qk_rope_head_dim": 8,
            "v_head_dim": 8,
            "first_k_dense_replace": 1,
        },
    ),
    Architecture(
        "GPT-OSS",
        DECODER,
        "GptOssForCausalLM",
        "GptOssConfig",
        HEADS_OF_16 | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 6},
    ),
    # State spaces and recurrences. Mamba's associative scan rounds in another order and runs only when compiled. It is
    # turned off, so that there is an eager result to compare with.
    Architecture(
        "Mamba",
        RECURRENT,
        "MambaForCausalLM",
        "MambaConfig",
        WORDS | {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4, "use_associative_scan": False},
    ),
    Architecture(
        "Mamba 2",
        RECURRENT,
        "Mamba2ForCausalLM",
        "Mamba2Config",
        WORDS
        | {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "state_size": 8,
            "num_heads": 4,
            "head_dim": 16,
            "n_groups": 2,
            "chunk_size": 4,
        },
    ),
    Architecture(
        "RWKV",
        RECURRENT,
        "RwkvForCausalLM",
        "RwkvConfig",
        WORDS
        | {
            "hidden_size": 32,
            "attention_hidden_size": 32,
            "num_hidden_layers": 2,
            "intermediate_size": 48,
            "context_length": 64,
        },
        (2, 1),
    ),
    Architecture(
        "RecurrentGemma",
        RECURRENT,
        "RecurrentGemmaForCausalLM",
        "RecurrentGemmaConfig",
        HEADS_OF_16 | {"lru_width": 32, "attention_window_size": 8, "block_types": ["recurrent", "attention"]},
    ),
    # Text encoders.
    Architecture("BERT", ENCODER, "BertModel", "BertConfig", PLAIN),
    Architecture("RoBERTa", ENCODER, "RobertaModel", "RobertaConfig", PLAIN),
    Architecture(
        "DistilBERT",
        ENCODER,
        "DistilBertModel",
        "DistilBertConfig",
        WORDS | {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48, "max_position_embeddings": 64},
    ),
    Architecture("ALBERT", ENCODER, "AlbertModel", "AlbertConfig", PLAIN | {"embedding_size": 16}),
    Architecture("ELECTRA", ENCODER, "ElectraModel", "ElectraConfig", PLAIN | {"embedding_size": 16}),
    Architecture(
        "DeBERTa v2",
        ENCODER,
        "DebertaV2Model",
        "DebertaV2Config",
        PLAIN | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    ),
    Architecture("MPNet", ENCODER, "MPNetModel", "MPNetConfig", PLAIN),
    Architecture(
        "ModernBERT",
        ENCODER,
        "ModernBertModel",
        "ModernBertConfig",
        PLAIN | {"cls_token_id": 1, "sep_token_id": 2, "local_attention": 8},
    ),
    Architecture("FNet", Kind("text encoder", tokens_only, "last_hidden_state"), "FNetModel", "FNetConfig", PLAIN),
    Architecture(
        "XLNet",
        ENCODER,
        "XLNetModel",
        "XLNetConfig",
        WORDS | {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 48},
    ),
    # Encoder-decoders.
    Architecture("T5", PAIR, "T5ForConditionalGeneration", "T5Config", T5_SIZES),
    Architecture("BART", PAIR, "BartForConditionalGeneration", "BartConfig", SEQ2SEQ, (1, 10)),
    Architecture("Marian", PAIR, "MarianMTModel", "MarianConfig", SEQ2SEQ, (1, 8)),
    Architecture("Pegasus", PAIR, "PegasusForConditionalGeneration", "PegasusConfig", SEQ2SEQ, (1, 8)),
    Architecture(
        "Switch Transformers",
        PAIR,
        "SwitchTransformersForConditionalGeneration",
        "SwitchTransformersConfig",
        T5_SIZES
        | {"num_experts": 4, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1, "num_decoder_layers": 1},
        (20, 21),
    ),
    # Vision.
    Architecture("ViT", SMALL_VISION, "ViTModel", "ViTConfig", IMAGE),
    Architecture("DeiT", SMALL_VISION, "DeiTModel", "DeiTConfig", IMAGE),
    Architecture("BEiT", SMALL_VISION, "BeitModel", "BeitConfig", IMAGE),
    Architecture("DINOv2", SMALL_VISION, "Dinov2Model", "Dinov2Config", WIDTH | {"image_size": 16, "patch_size": 8}),
    Architecture(
        "Swin",
        VISION,
        "SwinModel",
        "SwinConfig",
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 2], "window_size": 4},
    ),
    Architecture(
        "ResNet",
        VISION,
        "ResNetModel",
        "ResNetConfig",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
    ),
    Architecture(
        "ConvNeXt",
        VISION,
        "ConvNextModel",
        "ConvNextConfig",
        {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    ),
    Architecture(
        "SegFormer",
        VISION,
        "SegformerModel",
        "SegformerConfig",
        {
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "hidden_sizes": [8, 16],
            "num_attention_heads": [1, 2],
            "sr_ratios": [2, 1],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "mlp_ratios": [2, 2],
        },
    ),
    Architecture(
        "MobileNetV2", VISION, "MobileNetV2Model", "MobileNetV2Config", {"depth_multiplier": 0.25, "image_size": 32}
    ),
    Architecture(
        "CLIP",
        BOTH,
        "CLIPModel",
        "CLIPConfig",
        {"text_config": PLAIN, "vision_config": IMAGE, "projection_dim": 16},
    ),
    # Audio.
    Architecture(
        "Wav2Vec2",
        AUDIO,
        "Wav2Vec2Model",
        "Wav2Vec2Config",
        DENSE
        | {
            "conv_dim": [16, 16],
            "conv_kernel": [10, 3],
            "conv_stride": [5, 2],
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 8,
            "num_conv_pos_embedding_groups": 2,
            "mask_time_prob": 0.0,
            "layerdrop": 0.0,
        },
        (1, 5),
    ),
    Architecture(
        "Whisper",
        SPEECH,
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {name: value for name, value in SEQ2SEQ.items() if name != "max_position_embeddings"}
        | {
            "num_mel_bins": 16,
            "max_source_positions": 20,
            "max_target_positions": 32,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
        (1, 5),
    ),
]


def by_name(name: str) -> Architecture:
    return next(row for row in ARCHITECTURES if row.name == name)
