"""One tiny configuration of each architecture, with every trait of it at work: windows shorter than the long prompt,
groups of heads, partial rotations, biases."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce

import torch
import transformers as t
from transformers.integrations.bitnet import BitLinear, pack_weights
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

COMMON = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
NEOX = {key: value for key, value in COMMON.items() if key != "num_key_value_heads"}
GPTJ = {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "rotary_dim": 4, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
PHIMOE_ROPE = {"rope_type": "longrope", "original_max_position_embeddings": 64, "short_factor": [1.0, 1.25, 1.5, 2.0], "long_factor": [1.5, 2.0, 3.0, 4.0], "short_mscale": 1.25, "long_mscale": 1.25}
NOISE = (
    "_name_or_path",
    "transformers_version",
    "output_hidden_states",
    "output_attentions",
    "return_dict",
    "chunk_size_feed_forward",
    "id2label",
    "label2id",
    "problem_type",
)


@dataclass(frozen=True)
class Recipe:
    config: t.PreTrainedConfig
    kind: type[t.PreTrainedModel] | None = None
    """The model's class, where transformers does not find it by the config."""
    spread: float = 0.2
    """Standard deviation of the matrices."""
    embeddings: float | None = None
    """That of the embeddings, where it is another: the larger, the less rounded weights change the logits."""
    publish: Callable[[dict], dict] = lambda config: config
    """What releases on the hub write in the place of what transformers writes today."""
    rename: Callable[[str], str] = lambda name: name
    quantise: Callable[[torch.nn.Module], dict[str, torch.Tensor]] = lambda model: {}
    """Puts numbers that codes encode in the place of weights; returns the codes under their published names."""
    reshape: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]] = lambda state: state
    in_float32: tuple[str, ...] = ()
    """How the names of the tensors end that releases hold in float32."""
    prompts: dict[str, int] = field(default_factory=dict)
    """Further prompts, by their lengths."""

    def published_config(self, config: dict, architecture: str) -> dict:
        kept = {key: value for key, value in config.items() if value is not None and key not in NOISE}
        return self.publish({**kept, "architectures": [architecture], "dtype": "bfloat16"})


APERTUS_ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
LLAMA4 = COMMON | {"head_dim": 8, "intermediate_size": 24, "intermediate_size_mlp": 40}

PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10000.0}


def old_rope(config: dict, **fields: object) -> dict:
    """The fields for rotation of releases before transformers 5."""
    return {key: value for key, value in config.items() if key not in ("rope_parameters", "layer_types")} | fields


DYNAMIC_ROPE = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1000000.0}
INTERNLM2_NAMES = {
    "embed_tokens": "tok_embeddings",
    "lm_head": "output",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.o_proj": "attention.wo",
    "self_attn.wqkv": "attention.wqkv",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.down_proj": "feed_forward.w2",
    "mlp.up_proj": "feed_forward.w3",
}
"""Ours are those of Llama, which computes the same."""


def internlm(config: dict, architecture: str) -> dict:
    """As InternLM 2 and 3 spell it, whose code is not a part of transformers."""
    rest = {key: value for key, value in config.items() if key not in ("rope_parameters", "attention_bias", "mlp_bias", "head_dim", "model_type")}
    return rest | {
        "architectures": [architecture],
        "model_type": architecture.removesuffix("ForCausalLM").lower(),
        "bias": True,
        "rope_theta": 1000000,
        "rope_scaling": {"type": "dynamic", "factor": 2.0},
    }


def internlm2(config: dict) -> dict:
    return internlm(config, "InternLM2ForCausalLM")


def interleaved_qkv(groups: int, queries: int) -> Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    """Of each group of heads the queries, then the key and the value that they share, in one tensor."""

    def reshape(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        joined = dict(state)
        for name in [name for name in state if ".q_proj." in name]:
            parts = [joined.pop(name.replace("q_proj", f"{kind}_proj")) for kind in "qkv"]
            by_group = [part.reshape(groups, heads, -1, *part.shape[1:]) for part, heads in zip(parts, (queries, 1, 1))]
            joined[name.replace("q_proj", "wqkv")] = torch.cat(by_group, dim=1).reshape(-1, *parts[0].shape[1:]).contiguous()
        return joined

    return reshape


def chatglm(config: dict) -> dict:
    """As the first releases of GLM-4 spell it, whose code is not a part of transformers."""
    same = {key: config[key] for key in ("hidden_size", "num_attention_heads", "dtype", "eos_token_id")}
    own = {
        "architectures": ["ChatGLMModel"],
        "model_type": "chatglm",
        "padded_vocab_size": config["vocab_size"],
        "ffn_hidden_size": config["intermediate_size"],
        "num_layers": config["num_hidden_layers"],
        "seq_length": config["max_position_embeddings"],
        "kv_channels": config["head_dim"],
        "multi_query_attention": True,
        "multi_query_group_num": config["num_key_value_heads"],
        "layernorm_epsilon": config["rms_norm_eps"],
        "rope_ratio": config["rope_parameters"]["rope_theta"] / 10000,
        "add_qkv_bias": True,
        "add_bias_linear": False,
        "rmsnorm": True,
        "post_layer_norm": True,
        "apply_residual_connection_post_layernorm": False,
        "original_rope": True,
    }
    return same | own


CHATGLM_NAMES = {
    "model.embed_tokens": "transformer.embedding.word_embeddings",
    "model.norm": "transformer.encoder.final_layernorm",
    "model.layers": "transformer.encoder.layers",
    "lm_head": "transformer.output_layer",
    "self_attn.o_proj": "self_attention.dense",
    "mlp.gate_up_proj": "mlp.dense_h_to_4h",
    "mlp.down_proj": "mlp.dense_4h_to_h",
    "self_attn": "self_attention",
}


def chatglm_name(name: str) -> str:
    for ours, theirs in CHATGLM_NAMES.items():
        name = name.replace(ours, theirs)
    return name


def joined_qkv(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    published = {key: value for key, value in state.items() if not any(f".{one}_proj." in key for one in "qkv")}
    for key in [key for key in state if ".q_proj." in key]:
        parts = [state[key.replace(".q_proj.", f".{one}_proj.")] for one in "qkv"]
        published[key.replace(".q_proj.", ".query_key_value.")] = torch.cat(parts)
    return published


GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
}
GEMMA3 = t.Gemma3TextConfig(
    **COMMON,
    head_dim=8,
    query_pre_attn_scalar=24,
    sliding_window=8,
    layer_types=["full_attention", "sliding_attention"],
    rope_parameters=GEMMA3_ROPE,
)


def gemma3_whole(config: dict) -> dict:
    """As the model that also sees images publishes its text part."""
    inside = {k: v for k, v in config.items() if k not in ("architectures", "dtype", "eos_token_id", "rope_parameters", "layer_types")}
    inside |= {
        "rope_theta": 5000.0,
        "rope_local_base_freq": 100.0,
        "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        "sliding_window_pattern": 3,
    }
    return {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "torch_dtype": "bfloat16",
        "eos_token_id": [2],
        "text_config": inside,
    }


GEMMA4 = COMMON | {"num_hidden_layers": 3, "head_dim": 8, "global_head_dim": 16, "sliding_window": 8, "final_logit_softcapping": 5.0}
GEMMA4 |= {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"], "hidden_size_per_layer_input": 0}


def gemma4(config: dict) -> dict:
    """As releases name the heads of layers without a window."""
    kept = {key: value for key, value in config.items() if key != "per_layer_config"}
    heads = config["per_layer_config"][str(config["num_hidden_layers"] - 1)]
    return kept | {"global_head_dim": heads["head_dim"], "num_global_key_value_heads": heads.get("num_key_value_heads")}


def gemma4_whole(config: dict) -> dict:
    """As the model that also sees and hears publishes its text part."""
    inside = {k: v for k, v in gemma4(config).items() if k not in ("architectures", "dtype")}
    whole = config["architectures"][0].replace("ForCausalLM", "ForConditionalGeneration")
    kind = config["model_type"].removesuffix("_text")
    return {"architectures": [whole], "model_type": kind, "dtype": "bfloat16", "text_config": inside}


GEMMA3N = COMMON | {"num_hidden_layers": 4, "head_dim": 8, "sliding_window": 8, "final_logit_softcapping": 5.0, "tie_word_embeddings": True}
GEMMA3N |= {
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}},
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 6,
    "vocab_size_per_layer_input": 96,
    "laurel_rank": 6,
}


def gemma3n_whole(config: dict) -> dict:
    """As the model that also sees and hears publishes its text part."""
    inside = {k: v for k, v in config.items() if k not in ("architectures", "dtype", "rope_parameters")}
    inside |= {"rope_theta": 5000.0, "rope_local_base_freq": 100.0, "rope_scaling": None}
    return {"architectures": ["Gemma3nForConditionalGeneration"], "model_type": "gemma3n", "torch_dtype": "bfloat16", "text_config": inside}


def llama4_whole(config: dict) -> dict:
    """As the first releases, which list no kinds of layers."""
    text = old_rope(config, rope_theta=500000.0, rope_scaling={k: v for k, v in config["rope_parameters"].items() if k != "rope_theta"})
    text = {k: v for k, v in text.items() if k not in ("layer_types", "architectures")}
    return {"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4", "text_config": text, "dtype": "bfloat16"}


def longrope(maximum: int, original: int = 64) -> dict:
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75}
    rope |= {"short_factor": [1.0, 1.2, 1.5], "long_factor": [1.0, 2.0, 4.0]}
    return COMMON | {"max_position_embeddings": maximum, "original_max_position_embeddings": original, "rope_parameters": rope}


def one_by_one(names: tuple[str, str, str]) -> Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    """Experts as releases have them: a tensor for each projection (gate, up, down) of each."""

    def reshape(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        published = {}
        for key, value in state.items():
            prefix, _, name = key.rpartition(".")
            if name not in ("gate_up_proj", "down_proj") or value.dim() != 3:
                published[key] = value
                continue
            for index, expert in enumerate(value):
                parts = expert.chunk(2) if name == "gate_up_proj" else [expert]
                for part, own in zip(parts, names[:2] if len(parts) == 2 else names[2:]):
                    published[f"{prefix}.{index}.{own}.weight"] = part.contiguous()
        return published

    return reshape


def phimoe(**fields: float) -> Recipe:
    sizes = COMMON | {"intermediate_size": 12, "num_local_experts": 5, "num_experts_per_tok": 2}
    return Recipe(
        t.PhimoeConfig(**sizes, **fields, attention_bias=True, lm_head_bias=True, rope_parameters=PHIMOE_ROPE | {"rope_theta": 10000.0}),
        # Rounded weights give tokens other experts, each of which counts for nearly all.
        embeddings=2.0,
        publish=lambda c: old_rope(c, rope_theta=10000.0, rope_scaling=PHIMOE_ROPE, architectures=["PhiMoEForCausalLM"]),
        rename=lambda name: name.replace(".mlp.router.", ".block_sparse_moe.gate.").replace(".mlp.", ".block_sparse_moe."),
        reshape=one_by_one(("w1", "w3", "w2")),
    )


USUAL_EXPERTS = one_by_one(("gate_proj", "up_proj", "down_proj"))


def mxfp4(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Random codes for all experts of GPT-OSS."""
    codes = {}
    for index, layer in enumerate(model.model.layers):
        for name in ("gate_up_proj", "down_proj"):
            matrix = getattr(layer.mlp.experts, name)
            count, inputs, outputs = matrix.shape
            shape = (count, outputs, inputs // 32)
            blocks = torch.randint(0, 256, (*shape, 16), dtype=torch.uint8)
            scales = torch.randint(121, 126, shape, dtype=torch.uint8)
            matrix.copy_(convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16).float())
            key = f"model.layers.{index}.mlp.experts.{name}"
            codes |= {f"{key}_blocks": blocks, f"{key}_scales": scales}
    return codes


def ternary(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Random numbers of -1, 0 and 1 for all products but the head, whose inputs are in bfloat16, as they are where the model runs."""
    torch.compiler.set_stance("force_eager")
    codes = {}
    for name, module in list(model.model.named_modules()):
        if not isinstance(module, torch.nn.Linear):
            continue
        product = BitLinear(module.in_features, module.out_features, False, dtype=torch.float32)
        product.weight.copy_(pack_weights(torch.randint(-1, 2, (module.out_features, module.in_features))))
        product.weight_scale.fill_(2 ** torch.randint(1, 3, ()).item())
        product.register_forward_pre_hook(lambda _, inputs: (inputs[0].to(torch.bfloat16).float(),))
        model.model.set_submodule(name, product)
        codes[f"model.{name}.weight"] = product.weight
    return codes


def without_experts(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {key: value for key, value in state.items() if not key.endswith(("experts.gate_up_proj", "experts.down_proj"))}


YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
GPT_OSS = COMMON | {
    "intermediate_size": 32,
    "num_local_experts": 3,
    "num_experts_per_tok": 2,
    "head_dim": 8,
    "sliding_window": 8,
    "rope_parameters": YARN | {"rope_theta": 150000.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False},
}
DEEPSEEK = COMMON | {
    "moe_intermediate_size": 12,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "n_group": 4,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "num_key_value_heads": 4,
    "kv_lora_rank": 20,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
}
GRANITE_FACTORS = {"embedding_multiplier": 6.0, "attention_multiplier": 0.2, "residual_multiplier": 0.4, "logits_scaling": 2.5}
GLM_EXPERTS = {
    "moe_intermediate_size": 12,
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 1.5,
    "norm_topk_prob": True,
}


def granite_experts(name: str) -> str:
    """As releases name them."""
    for ours, theirs in (("experts.gate_up_proj", "input_linear.weight"), ("experts.down_proj", "output_linear.weight"), ("router.", "router.layer.")):
        name = name.replace(f"block_sparse_moe.{ours}", f"block_sparse_moe.{theirs}")
    return name


def whole(architecture: str, model_type: str) -> Callable[[dict], dict]:
    """As a model that also sees images publishes its text part."""

    def publish(config: dict) -> dict:
        inside = {k: v for k, v in config.items() if k not in ("architectures", "dtype", "tie_word_embeddings")}
        return {"architectures": [architecture], "model_type": model_type, "dtype": "bfloat16", "tie_word_embeddings": False, "text_config": inside}

    return publish


def qwen2_vl(config: dict) -> dict:
    """As the first releases publish it: the fields of the text part beside those of the whole."""
    own = old_rope(config, rope_theta=10000.0, rope_scaling={"type": "mrope", "mrope_section": [1, 1, 2]})
    return own | {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "vision_config": {"model_type": "qwen2_5_vl"}}


def turned_experts(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """All experts in one tensor, each matrix as [inputs, outputs]."""
    return {key: value.swapaxes(1, 2).contiguous() if ".experts." in key else value for key, value in state.items()}


def qwen3_vl_moe(config: dict) -> dict:
    published = qwen3_vl(config)
    inside = {k: v for k, v in published["text_config"].items() if k != "num_local_experts"} | {"num_experts": config["num_local_experts"]}
    return published | {"architectures": ["Qwen3VLMoeForConditionalGeneration"], "model_type": "qwen3_vl_moe", "text_config": inside}


def qwen3_vl(config: dict) -> dict:
    rope = {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [2, 1, 1]}
    inside = old_rope(config, rope_theta=10000.0, rope_scaling=rope) | {"model_type": "qwen3_vl_text"}
    return whole("Qwen3VLForConditionalGeneration", "qwen3_vl")(inside)


LINEAR = COMMON | {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_conv_kernel_dim": 4}
LINEAR_FLOATS = ("linear_attn.A_log", "linear_attn.norm.weight")
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_interleaved": True}
GATED_ROPE = MROPE | {"partial_rotary_factor": 0.5, "mrope_section": [1, 1, 0]}


def qwen3_5(architecture: str, model_type: str) -> Callable[[dict], dict]:
    """As the model that also sees images publishes its text part."""

    def publish(config: dict) -> dict:
        inside = {k: v for k, v in config.items() if k not in ("architectures", "partial_rotary_factor")}
        inside |= {"attn_output_gate": True, "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False}
        own = {"architectures": [architecture], "model_type": model_type, "tie_word_embeddings": config["tie_word_embeddings"]}
        return own | {"text_config": inside, "vision_config": {"model_type": model_type}}

    return publish


def first_lfm2(config: dict) -> dict:
    """As the first releases spell it: a width of feed-forward layers that is adjusted, and the layers that attend."""
    own = {
        "block_dim": config["hidden_size"],
        "block_ff_dim": config["intermediate_size"],
        "block_norm_eps": config["norm_eps"],
        "block_use_swiglu": True,
        "conv_dim": config["hidden_size"],
        "conv_dim_out": config["hidden_size"],
        "full_attn_idxs": [i for i, kind in enumerate(config["layer_types"]) if kind == "full_attention"],
        "num_heads": config["num_attention_heads"],
        "theta": 1000000.0,
        "use_pos_enc": True,
    }
    kept = {k: v for k, v in config.items() if k not in ("intermediate_size", "tie_word_embeddings")}
    return old_rope(kept, rope_theta=1000000.0) | own


def lfm2(config: dict) -> dict:
    return {k: v for k, v in config.items() if k != "tie_word_embeddings"} | {"tie_embedding": config["tie_word_embeddings"]}


MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}
ENDLESS = ("time_step_limit", "mamba_chunk_size", "chunk_size")
"""Fields of no effect; the first has no end, which JSON has no word for."""


def granite_hybrid(config: dict) -> dict:
    kinds = ["mamba" if kind == "linear_attention" else "attention" for kind in config["layer_types"]]
    kept = {k: v for k, v in config.items() if k not in ENDLESS}
    return old_rope(kept, rope_theta=10000.0, layer_types=kinds, position_embedding_type="nope")


def hunyuan(config: dict) -> dict:
    """With the fields of releases, of which only `alpha` counts."""
    scaling = {"alpha": 50.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "type": "dynamic"}
    return old_rope(config, rope_theta=10000.0, rope_scaling=scaling)


BLOCKS = {k: v for k, v in COMMON.items() if k != "num_hidden_layers"} | {
    "head_dim": 8,
    "mamba_num_heads": 4,
    "mamba_head_dim": 16,
    "ssm_state_size": 16,
    "n_groups": 2,
}
NEMOTRON_EXPERTS = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 12,
    "moe_shared_expert_intermediate_size": 20,
    "n_group": 1,
    "topk_group": 1,
}


def nemotron(config: dict) -> dict:
    """With the fields of releases: the rotation is two of their own."""
    return old_rope(config, rope_theta=10000.0, partial_rotary_factor=0.5)


def backbone(name: str) -> str:
    return name.replace("model.", "backbone.").replace("embed_tokens", "embeddings")


FALCON_H1 = MAMBA | {
    "mamba_n_heads": 6,
    "mamba_d_head": 12,
    "mamba_d_ssm": 72,
    "mamba_n_groups": 2,
    "lm_head_multiplier": 0.5,
    "embedding_multiplier": 3.0,
    "mlp_multipliers": [0.8, 0.6],
    "key_multiplier": 0.7,
    "attention_in_multiplier": 1.2,
    "attention_out_multiplier": 0.9,
    "ssm_in_multiplier": 1.25,
    "ssm_out_multiplier": 0.7,
    "ssm_multipliers": [0.9, 0.8, 0.7, 1.1, 1.3],
}


def falcon_h1(config: dict) -> dict:
    return old_rope({k: v for k, v in config.items() if k not in ENDLESS}, rope_theta=10000.0)


def nemotron_h(config: dict) -> dict:
    letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
    pattern = "".join(letters[kind] for kind in config["layers_block_type"])
    kept = {k: v for k, v in config.items() if k not in (*ENDLESS, "layers_block_type", "mtp_layers_block_type", "rope_parameters")}
    return kept | {"hybrid_override_pattern": pattern, "num_hidden_layers": len(pattern)}


def nemotron_experts(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    published = {}
    for key, value in state.items():
        prefix, _, name = key.rpartition(".")
        if name not in ("up_proj", "down_proj") or value.dim() != 3:
            published[key] = value
            continue
        published |= {f"{prefix}.{index}.{name}.weight": expert.contiguous() for index, expert in enumerate(value)}
    return published


MODELS = {
    "gemma": Recipe(t.GemmaConfig(**COMMON, head_dim=8), publish=lambda c: c | {"hidden_act": "gelu"}),
    "gemma-256": Recipe(t.GemmaConfig(**COMMON | {"hidden_size": 16, "num_key_value_heads": 1, "num_attention_heads": 2, "num_hidden_layers": 1}, head_dim=256)),
    "gemma2": Recipe(
        t.Gemma2Config(
            **COMMON,
            head_dim=8,
            sliding_window=8,
            query_pre_attn_scalar=24,
            attn_logit_softcapping=3.0,
            final_logit_softcapping=5.0,
        ),
        publish=lambda c: old_rope(c, rope_theta=10000.0),
    ),
    "gemma3": Recipe(GEMMA3),
    "gemma3-whole": Recipe(
        t.Gemma3TextConfig(
            **COMMON | {"num_hidden_layers": 3},
            head_dim=8,
            query_pre_attn_scalar=24,
            sliding_window=8,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            rope_parameters=GEMMA3_ROPE,
        ),
        publish=gemma3_whole,
        rename=lambda name: f"language_model.{name}",
    ),
    "phi3": Recipe(t.Phi3Config(**COMMON, sliding_window=12)),
    "phi3-longrope-short": Recipe(t.Phi3Config(**longrope(64))),
    "smollm3": Recipe(t.SmolLM3Config(**COMMON, no_rope_layer_interval=2)),
    "smollm3-sliding": Recipe(
        t.SmolLM3Config(**COMMON, no_rope_layers=[0, 1], use_sliding_window=True, sliding_window=8),
        publish=lambda c: old_rope(c, rope_theta=2000000.0),
    ),
    "olmo2": Recipe(t.Olmo2Config(**COMMON)),
    "granite": Recipe(
        t.GraniteConfig(
            **COMMON,
            embedding_multiplier=6.0,
            attention_multiplier=0.2,
            residual_multiplier=0.4,
            logits_scaling=2.5,
            attention_bias=True,
            mlp_bias=True,
        )
    ),
    "cohere": Recipe(t.CohereConfig(**COMMON, logit_scale=0.25)),
    "cohere2": Recipe(t.Cohere2Config(**COMMON, layer_types=["sliding_attention", "full_attention"], sliding_window=8, logit_scale=0.25)),
    "starcoder2": Recipe(t.Starcoder2Config(**COMMON, sliding_window=12)),
    "gpt2": Recipe(
        t.GPT2Config(vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=128, bos_token_id=1, eos_token_id=2),
    ),
    "gpt2-bare": Recipe(
        t.GPT2Config(vocab_size=96, n_embd=32, n_layer=1, n_head=2, n_inner=40, n_positions=128, bos_token_id=1, eos_token_id=2),
        rename=lambda name: name.removeprefix("transformer."),
    ),
    "gpt-neox": Recipe(
        t.GPTNeoXConfig(**NEOX, rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}),
        publish=lambda c: old_rope(c, rotary_pct=0.5, rotary_emb_base=500),
        rename=lambda name: name.replace("lm_head", "embed_out"),
    ),
    "gpt-neox-serial": Recipe(t.GPTNeoXConfig(**NEOX, use_parallel_residual=False, attention_bias=False)),
    "glm": Recipe(t.GlmConfig(**COMMON, head_dim=8)),
    "glm4": Recipe(t.Glm4Config(**COMMON, head_dim=8)),
    "mixtral": Recipe(
        t.MixtralConfig(**COMMON | {"intermediate_size": 20}, num_local_experts=5, num_experts_per_tok=2, sliding_window=12),
        publish=lambda c: old_rope(c, rope_theta=1000000.0),
        rename=lambda name: name.replace(".mlp.", ".block_sparse_moe."),
        reshape=one_by_one(("w1", "w3", "w2")),
    ),
    "qwen2-moe": Recipe(
        t.Qwen2MoeConfig(
            **COMMON,
            moe_intermediate_size=12,
            shared_expert_intermediate_size=28,
            num_experts=5,
            num_experts_per_tok=3,
            decoder_sparse_step=2,
        ),
        publish=lambda c: c | {"sliding_window": 0},
        reshape=USUAL_EXPERTS,
    ),
    "qwen3-moe": Recipe(
        t.Qwen3MoeConfig(
            **COMMON | {"num_hidden_layers": 3},
            moe_intermediate_size=12,
            num_experts=6,
            num_experts_per_tok=2,
            head_dim=8,
            norm_topk_prob=True,
            mlp_only_layers=[1],
        ),
        publish=lambda c: old_rope({k: v for k, v in c.items() if k != "num_local_experts"}, num_experts=6, rope_theta=10000.0),
        reshape=USUAL_EXPERTS,
    ),
    "gpt-oss": Recipe(t.GptOssConfig(**GPT_OSS), spread=0.3),
    "gpt-oss-mxfp4": Recipe(
        t.GptOssConfig(**GPT_OSS),
        spread=0.3,
        publish=lambda c: c | {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}},
        quantise=mxfp4,
        reshape=without_experts,
    ),
    "deepseek-v2": Recipe(
        t.DeepseekV2Config(
            **DEEPSEEK,
            n_shared_experts=2,
            q_lora_rank=None,
            topk_method="group_limited_greedy",
            routed_scaling_factor=1.5,
            rope_parameters=YARN | {"mscale": 0.707, "mscale_all_dim": 0.707},
        ),
        reshape=USUAL_EXPERTS,
    ),
    "deepseek-v3": Recipe(
        t.DeepseekV3Config(
            **DEEPSEEK,
            n_shared_experts=1,
            q_lora_rank=24,
            routed_scaling_factor=2.5,
            norm_topk_prob=True,
            rope_parameters=YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
        ),
        publish=lambda c: old_rope(
            {k: v for k, v in c.items() if k != "num_local_experts"},
            n_routed_experts=8,
            rope_theta=10000.0,
            rope_scaling={k: v for k, v in YARN.items() if k not in ("rope_type", "rope_theta")} | {"type": "yarn", "mscale": 1.0, "mscale_all_dim": 1.0},
        ),
        reshape=USUAL_EXPERTS,
    ),
    # Its answer to the further prompt outgrows the contexts with short factors.
    "phi3-longrope": Recipe(t.Phi3Config(**longrope(64, original=32)), prompts={"outgrowing": 26}),
    "cohere-plus": Recipe(t.CohereConfig(**COMMON, use_qk_norm=True)),
    "gpt2-scaled": Recipe(
        t.GPT2Config(
            vocab_size=96,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=128,
            bos_token_id=1,
            eos_token_id=2,
            activation_function="relu",
            scale_attn_by_inverse_layer_idx=True,
        ),
    ),
    "qwen2-moe-sliding": Recipe(
        t.Qwen2MoeConfig(
            **COMMON | {"num_hidden_layers": 3},
            moe_intermediate_size=12,
            shared_expert_intermediate_size=12,
            num_experts=4,
            num_experts_per_tok=2,
            norm_topk_prob=True,
            qkv_bias=False,
            use_sliding_window=True,
            sliding_window=8,
            max_window_layers=2,
        ),
        publish=lambda c: old_rope(c, rope_theta=10000.0),
        reshape=USUAL_EXPERTS,
    ),
    "qwen3-moe-sliding": Recipe(
        t.Qwen3MoeConfig(
            **COMMON,
            moe_intermediate_size=12,
            num_experts=4,
            num_experts_per_tok=2,
            head_dim=8,
            use_sliding_window=True,
            sliding_window=8,
        ),
        reshape=USUAL_EXPERTS,
    ),
    "deepseek-v2-greedy": Recipe(
        t.DeepseekV2Config(
            **DEEPSEEK | {"n_group": None, "topk_group": None},
            n_shared_experts=1,
            q_lora_rank=24,
            mlp_bias=True,
        ),
        publish=lambda c: c | {"n_group": None, "topk_group": None},
        reshape=USUAL_EXPERTS,
    ),
    "llama": Recipe(t.LlamaConfig(**COMMON, head_dim=12, tie_word_embeddings=True)),
    "mistral": Recipe(t.MistralConfig(**COMMON, sliding_window=12), publish=lambda c: old_rope(c, rope_theta=10000.0)),
    "qwen2": Recipe(t.Qwen2Config(**COMMON, use_sliding_window=True, sliding_window=12, max_window_layers=1)),
    "qwen3-sliding": Recipe(t.Qwen3Config(**COMMON, head_dim=8, use_sliding_window=True, sliding_window=12, max_window_layers=1)),
    "chatglm": Recipe(
        t.GlmConfig(**COMMON, head_dim=8, rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}),
        publish=chatglm,
        rename=chatglm_name,
        reshape=joined_qkv,
    ),
    "olmo3": Recipe(
        t.Olmo3Config(
            **COMMON,
            layer_types=["sliding_attention", "full_attention"],
            sliding_window=8,
            rope_parameters={
                "full_attention": YARN | {"rope_theta": 500.0, "attention_factor": 1.2},
                "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
            },
        ),
        publish=lambda c: old_rope(c, layer_types=c["layer_types"], rope_theta=500.0, rope_scaling=YARN | {"rope_theta": 500.0, "attention_factor": 1.2}),
    ),
    "olmoe": Recipe(
        t.OlmoeConfig(**COMMON | {"intermediate_size": 12}, num_experts=6, num_experts_per_tok=2),
        publish=lambda c: c | {"num_experts": 6},
        reshape=USUAL_EXPERTS,
    ),
    "exaone4": Recipe(
        t.Exaone4Config(**COMMON, head_dim=8, sliding_window=8, sliding_window_pattern=2),
        publish=lambda c: old_rope(c, rope_theta=10000.0, sliding_window_pattern="LG"),
    ),
    "exaone4-small": Recipe(
        t.Exaone4Config(**COMMON | {"num_hidden_layers": 1}, sliding_window=None, layer_types=["full_attention"]),
        publish=lambda c: c | {"sliding_window": None},
    ),
    "seed-oss": Recipe(t.SeedOssConfig(**COMMON, head_dim=8)),
    "ernie4-5": Recipe(t.Ernie4_5Config(**COMMON, head_dim=8, use_bias=True)),
    "ernie4-5-moe": Recipe(
        t.Ernie4_5_MoeConfig(
            **COMMON | {"num_hidden_layers": 3},
            moe_num_experts=6,
            moe_k=2,
            moe_intermediate_size=12,
            moe_num_shared_experts=2,
            moe_layer_end_index=1,
        ),
        rename=lambda name: name.replace("gate.moe_statics", "moe_statics"),
        reshape=USUAL_EXPERTS,
    ),
    "glm4-moe": Recipe(
        t.Glm4MoeConfig(**COMMON, **GLM_EXPERTS | {"routed_scaling_factor": 1.0}, head_dim=8, attention_bias=True, use_qk_norm=True),
        publish=lambda c: old_rope({k: v for k, v in c.items() if k != "num_local_experts"}, n_routed_experts=6, rope_theta=10000.0, partial_rotary_factor=0.5),
        reshape=USUAL_EXPERTS,
    ),
    "glm4-moe-lite": Recipe(
        t.Glm4MoeLiteConfig(
            **COMMON | {"num_key_value_heads": 4},
            **{k: v for k, v in GLM_EXPERTS.items() if k != "first_k_dense_replace"},
            mlp_layer_types=["sparse", "dense"],
            kv_lora_rank=20,
            q_lora_rank=24,
            qk_nope_head_dim=12,
            qk_rope_head_dim=8,
            v_head_dim=10,
        ),
        reshape=USUAL_EXPERTS,
    ),
    "dots1": Recipe(
        t.Dots1Config(**COMMON, **GLM_EXPERTS, head_dim=8, sliding_window=None),
        publish=lambda c: c | {"sliding_window": None},
        reshape=USUAL_EXPERTS,
    ),
    "granite-moe": Recipe(
        t.GraniteMoeConfig(**COMMON | {"intermediate_size": 12}, **GRANITE_FACTORS, num_local_experts=6, num_experts_per_tok=2),
        rename=granite_experts,
    ),
    "granite-moe-shared": Recipe(
        t.GraniteMoeSharedConfig(**COMMON | {"intermediate_size": 12, "num_hidden_layers": 1}, **GRANITE_FACTORS, num_local_experts=5, num_experts_per_tok=2, shared_intermediate_size=20),
        rename=granite_experts,
    ),
    "granite4": Recipe(
        t.GraniteMoeHybridConfig(
            **COMMON,
            **GRANITE_FACTORS,
            num_local_experts=0,
            num_experts_per_tok=0,
            shared_intermediate_size=40,
            layer_types=["attention", "attention"],
            position_embedding_type="rope",
            mamba_n_heads=4,
            mamba_d_head=16,
            tie_word_embeddings=True,
        ),
        publish=lambda c: {key: value for key, value in c.items() if key != "time_step_limit"} | {"layer_types": ["attention", "attention"]},
    ),
    "mistral3": Recipe(
        t.Ministral3Config(**COMMON, head_dim=8, rope_parameters=YARN | {"original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5}),
        publish=whole("Mistral3ForConditionalGeneration", "mistral3"),
        rename=lambda name: f"language_model.{name}",
    ),
    "qwen2-vl": Recipe(t.Qwen2Config(**COMMON), publish=qwen2_vl),
    "qwen3-vl": Recipe(
        t.Qwen3Config(**COMMON, head_dim=8),
        publish=qwen3_vl,
        rename=lambda name: name.replace("model.", "model.language_model."),
    ),
    "qwen3-vl-moe": Recipe(
        t.Qwen3MoeConfig(**COMMON, moe_intermediate_size=12, num_experts=6, num_experts_per_tok=2, head_dim=8, norm_topk_prob=True),
        publish=qwen3_vl_moe,
        rename=lambda name: name.replace("model.", "model.language_model."),
        reshape=turned_experts,
    ),
    "qwen3.5": Recipe(
        t.Qwen3_5TextConfig(
            **LINEAR | {"num_hidden_layers": 3, "intermediate_size": 24, "tie_word_embeddings": True},
            linear_value_head_dim=24,
            layer_types=["linear_attention", "linear_attention", "full_attention"],
            head_dim=8,
            rope_parameters=GATED_ROPE,
        ),
        publish=qwen3_5("Qwen3_5ForConditionalGeneration", "qwen3_5"),
        rename=lambda name: name.replace("model.", "model.language_model."),
        in_float32=LINEAR_FLOATS,
    ),
    "qwen3-next": Recipe(
        t.Qwen3NextConfig(
            **LINEAR | {"num_hidden_layers": 4, "hidden_size": 16},
            linear_value_head_dim=16,
            head_dim=16,
            moe_intermediate_size=8,
            shared_expert_intermediate_size=12,
            num_experts=4,
            num_experts_per_tok=2,
            norm_topk_prob=True,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
        ),
        spread=0.15,
        embeddings=0.6,
        publish=lambda c: old_rope(c, rope_theta=10000.0, rope_scaling=None, partial_rotary_factor=0.25, full_attention_interval=4),
        reshape=USUAL_EXPERTS,
    ),
    "lfm2": Recipe(
        t.Lfm2Config(
            **COMMON | {"num_hidden_layers": 4},
            layer_types=["conv", "conv", "full_attention", "conv"],
            block_auto_adjust_ff_dim=True,
            block_ffn_dim_multiplier=1.2,
            block_multiple_of=8,
        ),
        publish=first_lfm2,
    ),
    "qwen3.5-moe": Recipe(
        t.Qwen3_5MoeTextConfig(
            **{k: v for k, v in LINEAR.items() if k != "intermediate_size"} | {"linear_num_value_heads": 6},
            linear_value_head_dim=16,
            layer_types=["linear_attention", "full_attention"],
            head_dim=16,
            moe_intermediate_size=12,
            shared_expert_intermediate_size=20,
            num_experts=4,
            num_experts_per_tok=2,
            rope_parameters=GATED_ROPE | {"mrope_section": [2, 1, 1]},
        ),
        publish=qwen3_5("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"),
        rename=lambda name: name.replace("model.", "model.language_model."),
        in_float32=LINEAR_FLOATS,
    ),
    "qwen3.5-text": Recipe(
        t.Qwen3_5TextConfig(
            **LINEAR | {"num_hidden_layers": 3, "intermediate_size": 24, "linear_num_value_heads": 2, "linear_conv_kernel_dim": 3},
            linear_value_head_dim=16,
            layer_types=["linear_attention", "full_attention", "linear_attention"],
            head_dim=16,
            rope_parameters=GATED_ROPE | {"mrope_section": [2, 1, 1]},
        ),
        spread=0.15,
        embeddings=0.6,
        publish=lambda c: {key: value for key, value in c.items() if key != "partial_rotary_factor"},
    ),
    "lfm2-bias": Recipe(
        t.Lfm2Config(
            **COMMON | {"num_hidden_layers": 3, "tie_word_embeddings": False},
            layer_types=["conv", "full_attention", "conv"],
            conv_bias=True,
            conv_L_cache=4,
            block_auto_adjust_ff_dim=False,
        ),
        publish=lfm2,
    ),
    "lfm2-moe": Recipe(
        t.Lfm2MoeConfig(
            **COMMON | {"num_hidden_layers": 3},
            layer_types=["conv", "full_attention", "conv"],
            moe_intermediate_size=12,
            num_dense_layers=1,
            num_experts=6,
            num_experts_per_tok=2,
            routed_scaling_factor=1.5,
            norm_topk_prob=True,
        ),
        publish=lambda c: old_rope(lfm2(c), layer_types=c["layer_types"], rope_theta=1000000.0),
        reshape=one_by_one(("w1", "w3", "w2")),
        in_float32=("expert_bias",),
    ),
    "granite-hybrid-mamba": Recipe(
        t.GraniteMoeHybridConfig(
            **COMMON | {"num_hidden_layers": 3, "intermediate_size": 12},
            **MAMBA,
            **GRANITE_FACTORS,
            num_local_experts=4,
            num_experts_per_tok=2,
            shared_intermediate_size=12,
            layer_types=["mamba", "attention", "mamba"],
            tie_word_embeddings=True,
        ),
        publish=granite_hybrid,
        rename=granite_experts,
    ),
    "gemma4": Recipe(t.Gemma4TextConfig(**GEMMA4, num_global_key_value_heads=1, attention_k_eq_v=True), publish=gemma4),
    "gemma4-moe": Recipe(
        t.Gemma4TextConfig(
            **GEMMA4 | {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]},
            num_global_key_value_heads=2,
            attention_k_eq_v=True,
            enable_moe_block=True,
            num_experts=6,
            top_k_experts=2,
            moe_intermediate_size=12,
        ),
    ),
    "gemma4-small": Recipe(
        t.Gemma4TextConfig(
            **GEMMA4
            | {
                "intermediate_size": 20,
                "num_hidden_layers": 4,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
                "hidden_size_per_layer_input": 6,
            },
            vocab_size_per_layer_input=96,
            num_kv_shared_layers=2,
            use_double_wide_mlp=True,
        ),
        spread=0.15,
        embeddings=0.5,
        publish=gemma4_whole,
        rename=lambda name: name.replace("model.", "model.language_model.", 1),
    ),
    "gemma4-unified": Recipe(
        t.Gemma4UnifiedTextConfig(
            **{key: value for key, value in GEMMA4.items() if key != "hidden_size_per_layer_input"},
            num_global_key_value_heads=2,
            attention_k_eq_v=True,
        ),
        publish=gemma4_whole,
        rename=lambda name: name.replace("model.", "model.language_model.", 1),
    ),
    "nemotron-h": Recipe(
        t.NemotronHConfig(
            **BLOCKS,
            **NEMOTRON_EXPERTS,
            layers_block_type=["linear_attention", "moe", "full_attention", "mlp", "linear_attention"],
            routed_scaling_factor=2.5,
        ),
        publish=nemotron_h,
        rename=backbone,
        reshape=nemotron_experts,
    ),
    "nemotron-h-latent": Recipe(
        t.NemotronHConfig(
            **BLOCKS,
            **NEMOTRON_EXPERTS | {"n_group": 2},
            layers_block_type=["linear_attention", "full_attention", "moe"],
            moe_latent_size=16,
            use_bias=True,
            mlp_bias=True,
            use_conv_bias=False,
            norm_topk_prob=False,
        ),
        publish=lambda config: {k: v for k, v in config.items() if k not in ENDLESS},
        reshape=nemotron_experts,
    ),
    "nemotron": Recipe(t.NemotronConfig(**COMMON, norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}), publish=nemotron),
    "arcee": Recipe(t.ArceeConfig(**COMMON, attention_bias=True, mlp_bias=True, rope_parameters=YARN | {"original_max_position_embeddings": 64})),
    "hunyuan": Recipe(
        t.HunYuanDenseV1Config(
            **COMMON, head_dim=16, attention_bias=True, tie_word_embeddings=True, rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 50.0, "factor": 1.0}
        ),
        publish=hunyuan,
    ),
    "hunyuan-plain": Recipe(t.HunYuanDenseV1Config(**COMMON, head_dim=8)),
    "falcon-h1": Recipe(t.FalconH1Config(**COMMON, **FALCON_H1), publish=falcon_h1),
    "falcon-h1-norm": Recipe(
        t.FalconH1Config(**COMMON | {"num_hidden_layers": 1}, **FALCON_H1, mamba_rms_norm=True, mamba_norm_before_gate=False, tie_word_embeddings=True),
        publish=falcon_h1,
    ),
    "opt": Recipe(
        t.OPTConfig(
            vocab_size=96, hidden_size=32, ffn_dim=40, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128, word_embed_proj_dim=32, bos_token_id=1, eos_token_id=2, pad_token_id=0
        ),
    ),
    "minimax-m2": Recipe(
        t.MiniMaxM2Config(
            **COMMON | {"intermediate_size": 12},
            head_dim=8,
            num_local_experts=6,
            num_experts_per_tok=2,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
        ),
        publish=lambda c: old_rope(
            c, rope_theta=10000.0, rotary_dim=4, use_qk_norm=True, qk_norm_type="per_layer", scoring_func="sigmoid", use_routing_bias=True, shared_intermediate_size=0, num_mtp_modules=3
        ),
        rename=lambda name: name.replace(".mlp.", ".block_sparse_moe."),
        reshape=one_by_one(("w1", "w3", "w2")),
    ),
    "afmoe": Recipe(
        t.AfmoeConfig(
            **COMMON | {"num_hidden_layers": 3},
            head_dim=8,
            moe_intermediate_size=12,
            num_experts=6,
            num_experts_per_tok=2,
            num_shared_experts=1,
            num_dense_layers=1,
            route_scale=2.5,
            sliding_window=12,
            global_attn_every_n_layers=2,
            mup_enabled=True,
        ),
        publish=lambda c: old_rope(c, rope_theta=10000.0, layer_types=c["layer_types"], route_norm=True, score_func="sigmoid", n_group=1, topk_group=1),
        reshape=USUAL_EXPERTS,
    ),
    "mistral4": Recipe(
        t.Mistral4Config(
            **DEEPSEEK,
            n_shared_experts=1,
            q_lora_rank=24,
            routed_scaling_factor=1.5,
            norm_topk_prob=True,
            rope_parameters=YARN | {"original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5, "partial_rotary_factor": 0.4},
        ),
        kind=t.Mistral4ForCausalLM,
        publish=whole("Mistral3ForConditionalGeneration", "mistral3"),
        rename=lambda name: f"language_model.{name}",
    ),
    "granite-swa": Recipe(
        t.GraniteSWAConfig(**COMMON | {"num_hidden_layers": 3}, **GRANITE_FACTORS, sliding_window=8, layer_types=["full_attention", "sliding_attention", "sliding_attention"], layer_rope_theta=[0, 10000.0, 500000.0]),
    ),
    "granite-moe-swa": Recipe(
        t.GraniteMoeSWAConfig(
            **COMMON | {"intermediate_size": 16}, **GRANITE_FACTORS, num_local_experts=5, num_experts_per_tok=2, shared_intermediate_size=24, sliding_window=8, layer_types=["full_attention", "sliding_attention"], layer_rope_theta=[0, 10000.0]
        ),
    ),
    "hunyuan-moe": Recipe(
        t.HunYuanMoEV1Config(**COMMON | {"intermediate_size": 16}, head_dim=8, num_experts=5, moe_topk=2),
        publish=lambda c: c | {"moe_topk": [2, 2], "moe_intermediate_size": [16, 16], "num_shared_expert": [1, 1], "use_cla": False},
        reshape=USUAL_EXPERTS,
    ),
    "solar-open": Recipe(
        t.SolarOpenConfig(**{k: v for k, v in COMMON.items() if k != "intermediate_size"}, head_dim=8, **{k: v for k, v in GLM_EXPERTS.items() if k != "first_k_dense_replace"}),
        reshape=USUAL_EXPERTS,
    ),
    "exaone-moe": Recipe(
        t.ExaoneMoeConfig(
            **COMMON | {"num_hidden_layers": 3}, head_dim=8, sliding_window=8, layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            moe_intermediate_size=12, num_experts=6, num_experts_per_tok=2, num_shared_experts=1, n_group=2, topk_group=1, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        ),
        reshape=USUAL_EXPERTS,
    ),
    "bitnet": Recipe(t.BitNetConfig(**COMMON | {"tie_word_embeddings": True})),
    "bitnet-ternary": Recipe(
        t.BitNetConfig(**COMMON | {"tie_word_embeddings": True}),
        publish=lambda c: c | {"quantization_config": {"quant_method": "bitnet", "linear_class": "bitlinear", "quantization_mode": "offline"}},
        quantise=ternary,
    ),
    "gemma3n": Recipe(
        t.Gemma3nTextConfig(**GEMMA3N | {"intermediate_size": [20, 20, 20, 20]}, altup_num_inputs=4, activation_sparsity_pattern=[0.7, 0.0, 0.4, 0.0]),
        spread=0.15,
        embeddings=0.5,
        publish=gemma3n_whole,
        rename=lambda name: name.replace("model.", "model.language_model.", 1),
    ),
    "gemma3n-uneven": Recipe(
        t.Gemma3nTextConfig(
            **GEMMA3N | {"intermediate_size": [28, 16, 24, 20]},
            altup_num_inputs=3,
            altup_active_idx=1,
            altup_correct_scale=False,
            activation_sparsity_pattern=[0.0, 0.6, 0.0, 0.95],
        ),
        spread=0.15,
        embeddings=0.5,
    ),
    "apertus": Recipe(
        t.ApertusConfig(**COMMON, rope_parameters=APERTUS_ROPE | {"rope_theta": 12000000.0}),
        publish=lambda c: old_rope(c, rope_theta=12000000.0, rope_scaling=APERTUS_ROPE),
    ),
    "llama4": Recipe(
        t.Llama4TextConfig(
            **LLAMA4 | {"num_hidden_layers": 3},
            no_rope_layers=[1, 0, 1],
            attention_chunk_size=10,
            floor_scale=6,
            attn_scale=0.5,
            interleave_moe_layer_step=2,
            num_local_experts=4,
            num_experts_per_tok=2,
            rope_parameters=APERTUS_ROPE | {"high_freq_factor": 1.0, "rope_theta": 500000.0},
        ),
        kind=t.Llama4ForCausalLM,
        publish=llama4_whole,
        rename=lambda name: f"language_model.{name}",
    ),
    "llama4-text": Recipe(
        t.Llama4TextConfig(
            **LLAMA4 | {"num_hidden_layers": 4, "intermediate_size": 16},
            interleave_moe_layer_step=2,
            num_local_experts=3,
            num_experts_per_tok=1,
            rope_parameters=APERTUS_ROPE | {"rope_theta": 500000.0},
        ),
        kind=t.Llama4ForCausalLM,
        reshape=lambda state: USUAL_EXPERTS(turned_experts(state)),
    ),
    "stablelm": Recipe(
        t.StableLmConfig(**COMMON, use_qkv_bias=True, rope_parameters=PLAIN_ROPE | {"partial_rotary_factor": 0.5}),
        publish=lambda c: old_rope(c, rope_theta=10000, partial_rotary_factor=0.5),
    ),
    "stablelm-parallel": Recipe(
        t.StableLmConfig(**COMMON, qk_layernorm=True, use_parallel_residual=True, rope_parameters=PLAIN_ROPE | {"partial_rotary_factor": 0.25}),
        publish=lambda c: old_rope(c, rope_theta=10000, partial_rotary_factor=0.25),
    ),
    "phi": Recipe(
        t.PhiConfig(**NEOX, rope_parameters=PLAIN_ROPE | {"partial_rotary_factor": 0.5}),
        publish=lambda c: old_rope(c, rope_theta=10000.0, partial_rotary_factor=0.5),
    ),
    # Bounded so that it tells: a third of the numbers of queries, keys and values.
    "olmo": Recipe(t.OlmoConfig(**COMMON, clip_qkv=1.0), publish=lambda c: old_rope(c, rope_theta=10000.0)),
    "internlm2": Recipe(
        t.LlamaConfig(**COMMON | {"num_attention_heads": 8}, attention_bias=True, rope_parameters=DYNAMIC_ROPE),
        publish=internlm2,
        reshape=interleaved_qkv(groups=2, queries=4),
        rename=lambda name: reduce(lambda so_far, names: so_far.replace(*names), INTERNLM2_NAMES.items(), name),
    ),
    "internlm3": Recipe(
        t.LlamaConfig(**COMMON, head_dim=16, attention_bias=True, mlp_bias=True, rope_parameters=DYNAMIC_ROPE),
        publish=lambda c: internlm(c, "InternLM3ForCausalLM") | {"qkv_bias": True, "head_dim": 16},
    ),
    "gptj": Recipe(t.GPTJConfig(**GPTJ)),
    "codegen": Recipe(t.CodeGenConfig(**GPTJ | {"n_head": 8, "n_inner": 40})),
    # Experts are near each other in twenty times the range of releases, so that it tells.
    "phimoe": phimoe(router_jitter_noise=0.2),
    # For GGUF files, which do not have the range.
    "phimoe-usual": phimoe(),
}
