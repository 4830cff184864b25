"""Writes GGUF files of golden models, in the names and the order of numbers that llama.cpp's converters write.

    pip install gguf==0.19.0 safetensors torch
    python tools/goldens/gguf_models.py test/fixtures/goldens test/fixtures/gguf

Names of tensors and keys are those of the format's own package. Numbers stay what they are: matrices in BF16, which holds them, vectors in
F32, and experts that are published in MXFP4 in its blocks. The tests hold the logits of each file against those of its folder.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, MODEL_ARCH, MODEL_ARCH_NAMES, get_tensor_name_map
from safetensors import safe_open


class Stored(NamedTuple):
    """A tensor in the format of its bytes."""

    numbers: np.ndarray
    dtype: GGMLQuantizationType


def read_folder(folder: Path) -> tuple[dict, dict[str, np.ndarray]]:
    config = json.loads((folder / "config.json").read_text())
    if "layers_block_type" in config:
        config["num_hidden_layers"] = len(config["layers_block_type"])
    tensors = {}
    with safe_open(folder / "model.safetensors", "pt") as file:
        for name in file.keys():
            tensor = file.get_tensor(name)
            tensors[name] = (tensor if tensor.dtype == torch.uint8 else tensor.float()).numpy()
    # Of a model that also sees images the part that reads text.
    names = {name: name.replace("language_model.", "") for name in tensors}
    return config.get("text_config", config), {names[name]: tensor for name, tensor in tensors.items()}


def shared_keys(writer: gguf.GGUFWriter, config: dict) -> None:
    writer.add_context_length(config.get("max_position_embeddings") or config["n_positions"])
    writer.add_embedding_length(config.get("hidden_size") or config["n_embd"])
    writer.add_block_count(config.get("num_hidden_layers") or config["n_layer"])
    width = config.get("intermediate_size_mlp") or config.get("intermediate_size") or 4 * config.get("n_embd", 0)
    # Models with experts in all layers may have none.
    if width:
        writer.add_feed_forward_length(width)
    writer.add_head_count(config.get("num_attention_heads") or config["n_head"])
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = rope.get("rope_theta") or config.get("rope_theta")
    if theta is not None:
        writer.add_rope_freq_base(theta)
    if (rope.get("rope_type") or rope.get("type")) == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "mscale_all_dim" in rope:
            # What DeepSeek's factor is a multiple of.
            unit = 1.0 if config["model_type"] == "ministral3" else 0.1
            writer.add_rope_scaling_yarn_log_mul(unit * rope["mscale_all_dim"])


def stack_experts(tensors: dict[str, np.ndarray], layer: int, count: int, mixture: str = "mlp", kinds: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")) -> None:
    """The matrices of all experts as one tensor, under the name that the package knows."""
    prefix = f"model.layers.{layer}.{mixture}.experts"
    for kind in kinds:
        names = [f"{prefix}.{expert}.{kind}.weight" for expert in range(count)]
        if names[0] in tensors:
            tensors[f"{prefix}.{kind}.weight"] = np.stack([tensors.pop(name) for name in names])


def mxfp4(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Blocks [..., groups, 16], whose bytes hold two neighbours, as the format has them: a scale, then numbers i and i + 16 in a byte."""
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    packed = codes[..., :16] | codes[..., 16:] << 4
    block = np.concatenate([scales[..., None], packed], axis=-1)
    return np.ascontiguousarray(block.reshape(*block.shape[:-2], -1))


def gpt_oss(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    for layer in range(config["num_hidden_layers"]):
        experts = f"model.layers.{layer}.mlp.experts"
        sinks = f"model.layers.{layer}.self_attn.sinks"
        tensors[f"{sinks}.weight"] = tensors.pop(sinks)
        both = tensors.pop(f"{experts}.gate_up_proj_bias")
        tensors[f"{experts}.gate_proj.bias"], tensors[f"{experts}.up_proj.bias"] = both[:, ::2], both[:, 1::2]
        tensors[f"{experts}.down_proj.bias"] = tensors.pop(f"{experts}.down_proj_bias")
        if f"{experts}.gate_up_proj" in tensors:
            both = tensors.pop(f"{experts}.gate_up_proj").swapaxes(1, 2)
            down = tensors.pop(f"{experts}.down_proj").swapaxes(1, 2)
        else:
            both, down = (
                mxfp4(tensors.pop(f"{experts}.{kind}_blocks"), tensors.pop(f"{experts}.{kind}_scales"))
                for kind in ("gate_up_proj", "down_proj")
            )
        tensors[f"{experts}.gate_proj.weight"], tensors[f"{experts}.up_proj.weight"] = both[:, ::2], both[:, 1::2]
        tensors[f"{experts}.down_proj.weight"] = down


def deepseek(is_apart: bool):
    """is_apart: whether keys and values are made of the latent by matrices of their own, as newer converters write them."""

    def convert(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
        heads, rank = config["num_attention_heads"], config["kv_lora_rank"]
        nope, rope, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        writer.add_head_count_kv(1 if is_apart else heads)
        writer.add_key_length(rank + rope if is_apart else nope + rope)
        writer.add_value_length(rank if is_apart else value)
        if is_apart:
            writer.add_key_length_mla(nope + rope)
            writer.add_value_length_mla(value)
        writer.add_kv_lora_rank(rank)
        if config.get("q_lora_rank") is not None:
            writer.add_q_lora_rank(config["q_lora_rank"])
        writer.add_rope_dimension_count(rope)
        writer.add_leading_dense_block_count(config["first_k_dense_replace"])
        writer.add_expert_count(config["n_routed_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_shared_count(config["n_shared_experts"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
        writer.add_expert_weights_norm(config["norm_topk_prob"])
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
        is_v3 = config["model_type"] == "deepseek_v3"
        gating = gguf.ExpertGatingFuncType.SIGMOID if is_v3 else gguf.ExpertGatingFuncType.SOFTMAX
        writer.add_expert_gating_func(gating)
        # Converters leave out the layers that guess tokens ahead.
        for name in [name for name in tensors if name.startswith(f"model.layers.{config['num_hidden_layers']}.")]:
            del tensors[name]
        for layer in range(config["num_hidden_layers"]):
            stack_experts(tensors, layer, config["n_routed_experts"])
            prefix = f"model.layers.{layer}"
            bias = f"{prefix}.mlp.gate.e_score_correction_bias"
            if bias in tensors:
                tensors[f"{prefix}.mlp.gate.e_score_correction.bias"] = tensors.pop(bias)
            if is_apart:
                both = tensors.pop(f"{prefix}.self_attn.kv_b_proj.weight").reshape(heads, nope + value, rank)
                tensors[f"{prefix}.self_attn.k_b_proj.weight"] = both[:, :nope].swapaxes(1, 2)
                tensors[f"{prefix}.self_attn.v_b_proj.weight"] = both[:, nope:]

    return convert


def mistral4(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    deepseek(is_apart=True)(writer, config, tensors)
    writer.add_attn_temperature_scale(config["rope_parameters"]["llama_4_scaling_beta"])
    for name in [name for name in tensors if name.endswith((".experts.gate_up_proj", ".experts.down_proj"))]:
        tensors[f"{name}.weight"] = tensors.pop(name)


def gpt_neox(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    heads, width = config["num_attention_heads"], config["hidden_size"]
    writer.add_rope_dimension_count(int(config["rotary_pct"] * (width // heads)))
    writer.add_rope_freq_base(config["rotary_emb_base"])
    writer.add_parallel_residual(config["use_parallel_residual"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    for name in tensors:
        if ".query_key_value." in name:
            rows = tensors[name].reshape(heads, 3, width // heads, -1)
            tensors[name] = rows.swapaxes(0, 1).reshape(tensors[name].shape)


def gpt2(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    for name in tensors:
        if name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            tensors[name] = tensors[name].T


def chatglm(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    """As the first releases of GLM-4, which have queries, keys and values in one tensor."""
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"] // 2)
    for layer in range(config["num_hidden_layers"]):
        attention = f"model.layers.{layer}.self_attn"
        for kind in ("weight", "bias"):
            parts = [tensors.pop(f"{attention}.{part}_proj.{kind}") for part in "qkv"]
            tensors[f"encoder.layers.{layer}.self_attention.query_key_value.{kind}"] = np.concatenate(parts)


def usual(writer: gguf.GGUFWriter, config: dict) -> None:
    """What newer architectures have in common."""
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if config.get("sliding_window") and "layer_types" in config:
        writer.add_sliding_window(config["sliding_window"])
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])


def plain(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)


def exaone4(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config | {"layer_types": ["sliding_attention", "full_attention"]})


def olmo3(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    writer.add_rope_scaling_yarn_attn_factor(config["rope_scaling"]["attention_factor"])


def olmoe(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    for layer in range(config["num_hidden_layers"]):
        stack_experts(tensors, layer, config["num_experts"])


def ernie_moe(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    writer.add_expert_count(config["moe_num_experts"])
    writer.add_expert_used_count(config["moe_k"])
    writer.add_interleave_moe_layer_step(config["moe_layer_interval"])
    writer.add_leading_dense_block_count(config["moe_layer_start_index"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_shared_count(config["moe_num_shared_experts"])
    for layer in range(config["num_hidden_layers"]):
        stack_experts(tensors, layer, config["moe_num_experts"])
        bias = f"model.layers.{layer}.mlp.moe_statics.e_score_correction"
        if f"{bias}_bias" in tensors:
            tensors[f"{bias}.bias"] = tensors.pop(f"{bias}_bias").squeeze()


def grouped(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    """GLM-4.5 and dots.llm1."""
    usual(writer, config)
    count = config.get("n_routed_experts") or config["num_local_experts"]
    if config["model_type"] == "glm4_moe":
        writer.add_rope_dimension_count(config["head_dim"] // 2)
    writer.add_expert_count(count)
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_leading_dense_block_count(config["first_k_dense_replace"])
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_weights_norm(config["norm_topk_prob"])
    for layer in range(config["num_hidden_layers"]):
        stack_experts(tensors, layer, count)
        bias = f"model.layers.{layer}.mlp.gate.e_score_correction"
        if f"{bias}_bias" in tensors:
            tensors[f"{bias}.bias"] = tensors.pop(f"{bias}_bias")


def minimax_m2(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    writer.add_rope_dimension_count(config["rotary_dim"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    for layer in range(config["num_hidden_layers"]):
        stack_experts(tensors, layer, config["num_local_experts"], "block_sparse_moe", ("w1", "w2", "w3"))
        bias = f"model.layers.{layer}.block_sparse_moe.e_score_correction"
        tensors[f"{bias}.bias"] = tensors.pop(f"{bias}_bias")


def afmoe(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_shared_count(config["num_shared_experts"])
    writer.add_leading_dense_block_count(config["num_dense_layers"])
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_weights_scale(config["route_scale"])
    writer.add_expert_weights_norm(config["route_norm"])
    for layer in range(config["num_hidden_layers"]):
        stack_experts(tensors, layer, config["num_experts"])
        bias = f"model.layers.{layer}.mlp.expert_bias"
        if bias in tensors:
            tensors[f"{bias}.bias"] = tensors.pop(bias)


def qwen3_vl_moe(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    for layer in range(config["num_hidden_layers"]):
        experts = f"model.layers.{layer}.mlp.experts"
        gate, up = np.split(tensors.pop(f"{experts}.gate_up_proj").swapaxes(1, 2), 2, axis=1)
        tensors[f"{experts}.gate_proj.weight"], tensors[f"{experts}.up_proj.weight"] = gate, up
        tensors[f"{experts}.down_proj.weight"] = tensors.pop(f"{experts}.down_proj").swapaxes(1, 2)


def paired(tensors: dict[str, np.ndarray], heads: dict[str, int]) -> None:
    """The two halves of each head of queries and keys take turns, as some converters write them."""
    for key, tensor in tensors.items():
        for name, count in heads.items():
            if f".self_attn.{name}." in key:
                rows = tensor.reshape(count, 2, -1, *tensor.shape[1:])
                tensors[key] = np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(tensor.shape)


def granite_moe(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    writer.add_attention_scale(config["attention_multiplier"])
    writer.add_embedding_scale(config["embedding_multiplier"])
    writer.add_residual_scale(config["residual_multiplier"])
    writer.add_logit_scale(config["logits_scaling"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    # In the names of other models, which the package maps to the same.
    names = {"block_sparse_moe": "mlp.experts", "shared_mlp": "mlp.shared_experts"}
    if not config["num_local_experts"]:
        names = {"shared_mlp": "mlp"}
    paired(tensors, heads)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        for ours, theirs in names.items():
            both = tensors.pop(f"{prefix}.{ours}.input_linear.weight")
            gate, up = np.split(both, 2, axis=-2)
            tensors[f"{prefix}.{theirs}.gate_proj.weight"], tensors[f"{prefix}.{theirs}.up_proj.weight"] = gate, up
            if theirs == "mlp":
                tensors[f"{prefix}.mlp.down_proj.weight"] = tensors.pop(f"{prefix}.{ours}.output_linear.weight")


def arcee(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    paired(tensors, {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]})


def mistral3(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    arcee(writer, config, tensors)
    writer.add_attn_temperature_scale(config["rope_parameters"]["llama_4_scaling_beta"])


def hunyuan(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    dim = config["head_dim"]
    writer.add_key_length(dim)
    writer.add_value_length(dim)
    # Converters write the base that stretches positions in the place of the factor.
    alpha = config["rope_scaling"]["alpha"]
    writer.add_rope_freq_base(config["rope_theta"] * alpha ** (dim / (dim - 2)))
    writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)


def hunyuan_moe(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["moe_topk"][0])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"][0])
    writer.add_expert_shared_count(config["num_shared_expert"][0])
    for layer in range(config["num_hidden_layers"]):
        stack_experts(tensors, layer, config["num_experts"])


def nemotron(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_eps(config["norm_eps"])
    heads = config["num_attention_heads"]
    writer.add_rope_dimension_count(int(config["partial_rotary_factor"] * config["hidden_size"]) // heads)
    writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    for name in [name for name in tensors if name.endswith("norm.weight")]:
        tensors[name] = tensors[name] + 1


def scan_tensors(tensors: dict[str, np.ndarray], prefix: str, groups: int) -> None:
    tensors[f"{prefix}.dt.bias"] = tensors.pop(f"{prefix}.dt_bias")
    rates = -np.exp(tensors[f"{prefix}.A_log"].astype(np.float64)).astype(np.float32)
    norm, taps = tensors[f"{prefix}.norm.weight"], tensors[f"{prefix}.conv1d.weight"]
    for name, numbers in (
        ("A_log", rates[:, None]),
        ("D", tensors[f"{prefix}.D"][:, None]),
        ("norm.weight", norm.reshape(groups, -1)),
        ("conv1d.weight", taps.squeeze(1)),
    ):
        tensors[f"{prefix}.{name}"] = Stored(np.ascontiguousarray(numbers), GGMLQuantizationType.F32)


def nemotron_h(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
    pattern = config.get("hybrid_override_pattern") or "".join(letters[kind] for kind in config["layers_block_type"])
    for name in [name for name in tensors if name.startswith("model.")]:
        tensors[name.replace("model.", "backbone.", 1)] = tensors.pop(name)
    writer.add_head_count_kv([config["num_key_value_heads"] if kind == "*" else 0 for kind in pattern])
    writer.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    heads, groups = config["mamba_num_heads"], config["n_groups"]
    writer.add_ssm_conv_kernel(config["conv_kernel"])
    writer.add_ssm_state_size(config["ssm_state_size"])
    writer.add_ssm_group_count(groups)
    writer.add_ssm_inner_size(heads * config["mamba_head_dim"])
    writer.add_ssm_time_step_rank(heads)
    width = config["moe_intermediate_size"]
    writer.add_feed_forward_length([width if kind == "E" else 0 for kind in pattern])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(width)
    writer.add_expert_shared_feed_forward_length(config["moe_shared_expert_intermediate_size"])
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_expert_weights_norm(config["norm_topk_prob"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_group_count(config["n_group"])
    writer.add_expert_group_used_count(config["topk_group"])
    if config.get("moe_latent_size") is not None:
        writer.add_moe_latent_size(config["moe_latent_size"])
    for layer, kind in enumerate(pattern):
        prefix = f"backbone.layers.{layer}.mixer"
        if kind == "M":
            scan_tensors(tensors, prefix, groups)
        if kind != "E":
            continue
        tensors[f"{prefix}.gate.e_score_correction.bias"] = tensors.pop(f"{prefix}.gate.e_score_correction_bias")
        for name in ("up_proj", "down_proj"):
            experts = [tensors.pop(f"{prefix}.experts.{i}.{name}.weight") for i in range(config["n_routed_experts"])]
            # In the names of other models, which the package maps to the same.
            tensors[f"model.layers.{layer}.mlp.experts.{name}.weight"] = np.stack(experts)


def falcon_h1(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    """Weights have the factors. Their numbers are no longer those of bfloat16."""
    usual(writer, config)
    width, groups = config["mamba_d_ssm"], config["mamba_n_groups"]
    writer.add_ssm_conv_kernel(config["mamba_d_conv"])
    writer.add_ssm_state_size(config["mamba_d_state"])
    writer.add_ssm_group_count(groups)
    writer.add_ssm_inner_size(width)
    writer.add_ssm_time_step_rank(config["mamba_n_heads"])
    taken = config["attention_in_multiplier"]
    gate, down = config["mlp_multipliers"]
    of_groups = groups * config["mamba_d_state"]
    parts = np.repeat(config["ssm_multipliers"], [width, width, of_groups, of_groups, config["mamba_n_heads"]])
    factors = {
        "gate_proj": gate,
        "down_proj": down,
        "q_proj": taken,
        "k_proj": taken * config["key_multiplier"],
        "v_proj": taken,
        "o_proj": config["attention_out_multiplier"],
        "out_proj": config["ssm_out_multiplier"],
        "in_proj": parts[:, None] * config["ssm_in_multiplier"],
        "lm_head": config["lm_head_multiplier"],
        "embed_tokens": config["embedding_multiplier"],
    }
    for name, tensor in tensors.items():
        module = name.split(".")[-2]
        if module in factors:
            numbers = (tensor.astype(np.float64) * factors[module]).astype(np.float32)
            tensors[name] = Stored(np.ascontiguousarray(numbers), GGMLQuantizationType.F32)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        has_norm = f"{prefix}.mamba.norm.weight" in tensors
        if not has_norm:
            tensors[f"{prefix}.mamba.norm.weight"] = np.ones(width, np.float32)
        scan_tensors(tensors, f"{prefix}.mamba", groups)
        if not has_norm:
            del tensors[f"{prefix}.mamba.norm.weight"]
        tensors[f"{prefix}.mamba.dt_proj.bias"] = tensors.pop(f"{prefix}.mamba.dt.bias")


def granite_hybrid(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    granite_moe(writer, config, tensors)
    heads, groups = config["mamba_n_heads"], config["mamba_n_groups"]
    attends = [kind == "attention" for kind in config["layer_types"]]
    writer.add_head_count_kv([config["num_key_value_heads"] if does else 0 for does in attends])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_rope_scaling_finetuned(config["position_embedding_type"] == "rope")
    writer.add_ssm_conv_kernel(config["mamba_d_conv"])
    writer.add_ssm_state_size(config["mamba_d_state"])
    writer.add_ssm_group_count(groups)
    writer.add_ssm_inner_size(heads * config["mamba_d_head"])
    writer.add_ssm_time_step_rank(heads)
    for layer, does in enumerate(attends):
        if does:
            continue
        prefix = f"model.layers.{layer}.mamba"
        scan_tensors(tensors, prefix, groups)
        tensors[f"{prefix}.dt_proj.bias"] = tensors.pop(f"{prefix}.dt.bias")


def tiled(rows: np.ndarray, key_heads: int, heads: int, width: int) -> np.ndarray:
    """Heads of values, `width` rows each, from those of one head of keys side by side to heads of keys in turn."""
    grouped = rows.reshape(key_heads, heads // key_heads, width, -1)
    return np.ascontiguousarray(grouped.swapaxes(0, 1)).reshape(rows.shape)


def linear_attention(config: dict, tensors: dict[str, np.ndarray], prefix: str, is_tiled: bool) -> None:
    key_heads, heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    width = config["linear_value_head_dim"]
    keys = key_heads * config["linear_key_head_dim"]
    tensors[f"{prefix}.dt_proj.bias"] = tensors.pop(f"{prefix}.dt_bias")
    tensors[f"{prefix}.A_log"] = -np.exp(tensors[f"{prefix}.A_log"].astype(np.float64)).astype(np.float32)
    tensors[f"{prefix}.conv1d.weight"] = tensors[f"{prefix}.conv1d.weight"].squeeze(1)
    if not is_tiled:
        return
    for name in ("dt_proj.bias", "A_log", "in_proj_b.weight", "in_proj_a.weight"):
        tensors[f"{prefix}.{name}"] = tiled(tensors[f"{prefix}.{name}"], key_heads, heads, 1)
    for name in ("in_proj_qkv.weight", "conv1d.weight"):
        rows = tensors[f"{prefix}.{name}"]
        rows[2 * keys :] = tiled(rows[2 * keys :], key_heads, heads, width)
    tensors[f"{prefix}.in_proj_z.weight"] = tiled(tensors[f"{prefix}.in_proj_z.weight"], key_heads, heads, width)
    output = f"{prefix}.out_proj.weight"
    tensors[output] = np.ascontiguousarray(tiled(tensors[output].T, key_heads, heads, width).T)


def split_qkvz(config: dict, tensors: dict[str, np.ndarray], prefix: str) -> None:
    """From query, key, values and gates of each head of keys to queries, keys and values of all, and the gates by themselves."""
    key_heads, key_width = config["linear_num_key_heads"], config["linear_key_head_dim"]
    values = config["linear_num_value_heads"] // key_heads * config["linear_value_head_dim"]
    both = tensors.pop(f"{prefix}.in_proj_qkvz.weight")
    rows = both.reshape(key_heads, -1, both.shape[1])
    parts = np.split(rows, np.cumsum([key_width, key_width, values]), axis=1)
    *qkv, gate = (np.ascontiguousarray(part).reshape(-1, both.shape[1]) for part in parts)
    tensors[f"{prefix}.in_proj_qkv.weight"] = np.concatenate(qkv)
    tensors[f"{prefix}.in_proj_z.weight"] = gate


def hybrid(is_split: bool = True, drafts: int = 0):
    """
    Qwen3-Next and Qwen3.5.
    is_split: as newer converters write the projection of queries, keys, values and gates.
    drafts: blocks behind the layers that guess tokens ahead.
    """

    def convert(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
        count = config["num_hidden_layers"]
        usual(writer, config)
        writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
        writer.add_ssm_state_size(config["linear_key_head_dim"])
        writer.add_ssm_group_count(config["linear_num_key_heads"])
        writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
        writer.add_ssm_inner_size(config["linear_value_head_dim"] * config["linear_num_value_heads"])
        attention = next(layer for layer in range(count) if f"model.layers.{layer}.self_attn.q_proj.weight" in tensors)
        writer.add_full_attention_interval(attention + 1)
        rope = config.get("rope_parameters") or config
        writer.add_rope_dimension_count(int(config["head_dim"] * rope["partial_rotary_factor"]))
        if "mrope_section" in rope:
            writer.add_rope_dimension_sections([*rope["mrope_section"], 0])
        if "num_experts" in config:
            writer.add_expert_count(config["num_experts"])
            writer.add_expert_used_count(config["num_experts_per_tok"])
            writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
            writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
        for name in tensors:
            if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
                tensors[name] = tensors[name] + 1
        heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
        is_tiled = config["model_type"] != "qwen3_next" and heads[0] != heads[1]
        for layer in range(count):
            prefix = f"model.layers.{layer}.linear_attn"
            if f"{prefix}.A_log" in tensors:
                linear_attention(config, tensors, prefix, is_tiled)
            if is_split and f"{prefix}.in_proj_qkvz.weight" in tensors:
                split_qkvz(config, tensors, prefix)
            experts = f"model.layers.{layer}.mlp.experts"
            if f"{experts}.gate_up_proj" in tensors:
                gate, up = np.split(tensors.pop(f"{experts}.gate_up_proj"), 2, axis=1)
                tensors[f"{experts}.gate_proj.weight"], tensors[f"{experts}.up_proj.weight"] = gate, up
                tensors[f"{experts}.down_proj.weight"] = tensors.pop(f"{experts}.down_proj")
            elif "num_experts" in config:
                stack_experts(tensors, layer, config["num_experts"])
            gate = f"model.layers.{layer}.mlp.shared_expert_gate.weight"
            if gate in tensors:
                tensors[gate] = tensors[gate].squeeze()
        if drafts:
            writer.add_block_count(count + drafts)
            writer.add_nextn_predict_layers(drafts)
            tensors[f"model.layers.{count}.input_layernorm.weight"] = tensors["model.norm.weight"]

    return convert


def lfm2(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    layers = range(config["num_hidden_layers"])
    attends = [f"model.layers.{layer}.self_attn.q_proj.weight" in tensors for layer in layers]
    writer.add_head_count_kv([config["num_key_value_heads"] if does else 0 for does in attends])
    writer.add_layer_norm_rms_eps(config["norm_eps"])
    writer.add_shortconv_l_cache(config["conv_L_cache"])
    writer.add_feed_forward_length(tensors["model.layers.0.feed_forward.w1.weight"].shape[0])
    if "num_experts" in config:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        writer.add_leading_dense_block_count(config["num_dense_layers"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
    for layer in layers:
        prefix = f"model.layers.{layer}"
        convolution = f"{prefix}.conv.conv.weight"
        if convolution in tensors:
            tensors[convolution] = tensors[convolution].squeeze(1)
        bias = f"{prefix}.feed_forward.expert_bias"
        if bias in tensors:
            tensors[f"{bias}.bias"] = tensors.pop(bias)
            for kind in ("w1", "w2", "w3"):
                experts = range(config["num_experts"])
                names = [f"{prefix}.feed_forward.experts.{expert}.{kind}.weight" for expert in experts]
                tensors[f"layers.{layer}.feed_forward.experts.{kind}.weight"] = np.stack(
                    [tensors.pop(name) for name in names]
                )


def gemma4(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    layers, width = config["num_hidden_layers"], config["intermediate_size"]
    slides = [kind == "sliding_attention" for kind in config["layer_types"]]
    own = config.get("per_layer_config", {}).get(str(layers - 1), {})
    far = config.get("global_head_dim") or own["head_dim"]
    writer.add_key_length(far)
    writer.add_value_length(far)
    writer.add_key_length_swa(config["head_dim"])
    writer.add_value_length_swa(config["head_dim"])
    writer.add_rope_dimension_count(far)
    writer.add_rope_dimension_count_swa(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(config["rope_parameters"]["sliding_attention"]["rope_theta"])
    far_heads = config.get("num_global_key_value_heads")
    if far_heads is not None:
        writer.add_head_count_kv([config["num_key_value_heads"] if near else far_heads for near in slides])
    if config["final_logit_softcapping"] is not None:
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    shared = config["num_kv_shared_layers"]
    writer.add_shared_kv_layers(shared)
    if config["use_double_wide_mlp"]:
        writer.add_feed_forward_length([width if layer < layers - shared else 2 * width for layer in range(layers)])
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    if config["enable_moe_block"]:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["top_k_experts"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    turning = int(far * config["rope_parameters"]["full_attention"]["partial_rotary_factor"] / 2)
    factors = np.array([1.0] * turning + [1e30] * (far // 2 - turning), dtype=np.float32)
    writer.add_tensor("rope_freqs.weight", factors)
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        # Names that the package does not know end in another word.
        for ours, theirs in (("router.scale", "ffn_gate_inp.scale"), ("router.per_expert_scale", "ffn_down_exps.scale")):
            if f"{prefix}.{ours}" in tensors:
                writer.add_tensor(f"blk.{layer}.{theirs}", tensors.pop(f"{prefix}.{ours}"))
        for name in ("layer_scalar", "experts.gate_up_proj", "experts.down_proj"):
            if f"{prefix}.{name}" in tensors:
                tensors[f"{prefix}.{name}.weight"] = tensors.pop(f"{prefix}.{name}")


def gemma3n(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base_swa(config["rope_local_base_freq"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
    writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    # Published files have a float here, as the first converters wrote it.
    writer.add_float32("gemma3n.attention.shared_kv_layers", config["num_kv_shared_layers"])
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    writer.add_altup_num_inputs(config["altup_num_inputs"])
    writer.add_altup_active_idx(config["altup_active_idx"])
    shares = torch.tensor(config["activation_sparsity_pattern"], dtype=torch.float32)
    writer.add_activation_sparsity_scale(torch.distributions.normal.Normal(0, 1).icdf(shares).tolist())
    for kind in ("altup_projections", "altup_unembed_projections"):
        names = [f"model.{kind}.{index}.weight" for index in range(config["altup_num_inputs"] - 1)]
        tensors[f"model.{kind}.weight"] = np.stack([tensors.pop(name) for name in names])
    for name in [name for name in tensors if name.endswith("correct_output_scale")]:
        tensors[f"{name}.weight"] = tensors.pop(name)


def bitnet(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    # A key that newer converters write.
    writer.add_string("bitnet.hidden_activation", config["hidden_act"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(1.0)
    for name in [name for name in tensors if "sub_norm" in name]:
        # In the names of the first models, which the package knows.
        known = name.replace("attn_sub_norm", "inner_attn_ln").replace("ffn_sub_norm", "ffn_layernorm")
        tensors[known] = tensors.pop(name)


def apertus(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    layers = range(config["num_hidden_layers"])
    for name, add in (
        ("alpha_p", writer.add_xielu_alpha_p),
        ("alpha_n", writer.add_xielu_alpha_n),
        ("beta", writer.add_xielu_beta),
        ("eps", writer.add_xielu_eps),
    ):
        add([tensors.pop(f"model.layers.{layer}.mlp.act_fn.{name}").item() for layer in layers])
    divide_frequencies(writer, config, config["rope_scaling"])


def divide_frequencies(writer: gguf.GGUFWriter, config: dict, rope: dict) -> None:
    """What Llama 3 divides them by, one by one."""
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    theta = config.get("rope_theta") or rope["rope_theta"]
    turns = theta ** (np.arange(0, dim, 2, dtype=np.float64) / dim) * 2 * np.pi
    low, high = (rope["original_max_position_embeddings"] / rope[f"{end}_freq_factor"] for end in ("low", "high"))
    share = (rope["original_max_position_embeddings"] / turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
    between = 1 / ((1 - share) / rope["factor"] + share)
    divisors = np.where(turns < high, 1, np.where(turns > low, rope["factor"], between))
    writer.add_tensor("rope_freqs.weight", divisors.astype(np.float32))


def stablelm(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
    writer.add_rope_dimension_count(int(config["partial_rotary_factor"] * (config["hidden_size"] // heads["q"])))
    # What converters write where config.json does not say.
    writer.add_parallel_residual(True)
    for layer in range(config["num_hidden_layers"]):
        for kind, count in heads.items():
            norm = f"model.layers.{layer}.self_attn.{kind}_layernorm"
            if f"{norm}.norms.0.weight" in tensors:
                rows = np.stack([tensors.pop(f"{norm}.norms.{head}.weight") for head in range(count)])
                tensors[f"{norm}.weight"] = Stored(rows, GGMLQuantizationType.F32)


def phi2(is_joined: bool):
    """is_joined: queries, keys and values in one tensor, as in files of the first releases."""

    def convert(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
        heads, width = config["num_attention_heads"], config["hidden_size"]
        writer.add_head_count_kv(heads)
        writer.add_layer_norm_eps(config["layer_norm_eps"])
        writer.add_rope_dimension_count(int(config["partial_rotary_factor"] * width) // heads)
        for layer in range(config["num_hidden_layers"] if is_joined else 0):
            for kind in ("weight", "bias"):
                parts = [tensors.pop(f"model.layers.{layer}.self_attn.{part}_proj.{kind}") for part in "qkv"]
                tensors[f"transformer.h.{layer}.attn.c_attn.{kind}"] = np.concatenate(parts)

    return convert


def olmo(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_eps(1e-5)
    writer.add_clamp_kqv(config["clip_qkv"])
    paired(tensors, {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]})


def internlm2(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    groups = heads["k_proj"]
    for name in [name for name in tensors if ".wqkv." in name]:
        rows = tensors.pop(name)
        by_group = rows.reshape(groups, heads["q_proj"] // groups + 2, -1, *rows.shape[1:])
        for kind, part in (("q", by_group[:, :-2]), ("k", by_group[:, -2]), ("v", by_group[:, -1])):
            tensors[name.replace("attention.wqkv", f"self_attn.{kind}_proj")] = part.reshape(-1, *rows.shape[1:])
    paired(tensors, heads)


def phimoe(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    usual(writer, config)
    rope = config["rope_scaling"]
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_rope_scaling_attn_factors(rope["short_mscale"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    for length in ("long", "short"):
        writer.add_tensor(f"rope_factors_{length}.weight", np.array(rope[f"{length}_factor"], dtype=np.float32))
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    for layer in range(config["num_hidden_layers"]):
        stack_experts(tensors, layer, config["num_local_experts"], "block_sparse_moe", ("w1", "w2", "w3"))


Q4_0, Q5_0, Q8_0 = GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q5_0, GGMLQuantizationType.Q8_0

HYBRID_FORMATS = {
    "in_proj_qkv": Q8_0,
    "in_proj_z": Q4_0,
    "in_proj_a": Q8_0,
    "in_proj_b": Q4_0,
    "out_proj": Q8_0,
    "q_proj": Q4_0,
    "k_proj": Q4_0,
    "v_proj": Q8_0,
}
GEMMA4_FORMATS = {"q_proj": Q4_0, "k_proj": Q8_0, "o_proj": Q4_0, "gate_proj": Q8_0, "up_proj": Q8_0, "gate_up_proj": Q5_0}


def in_blocks(convert_floats, formats: dict[str, GGMLQuantizationType], is_widened: bool):
    """As files are that have a format for each tensor. is_widened: the numbers of the blocks, as floats."""

    def convert(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
        convert_floats(writer, config, tensors)
        for name, tensor in tensors.items():
            dtype = formats.get(name.removesuffix(".weight").rpartition(".")[2])
            if dtype is not None:
                blocks = gguf.quants.quantize(tensor, dtype)
                numbers = gguf.quants.dequantize(blocks, dtype)
                tensors[name] = Stored(numbers, GGMLQuantizationType.F32) if is_widened else Stored(blocks, dtype)

    return convert


# By the name of the file that is written: the folder of the numbers, and how they are converted.
def llama4(writer: gguf.GGUFWriter, config: dict, tensors: dict[str, np.ndarray]) -> None:
    """Chunks, which layers see them, and how queries grow are not in the file: they are those of all releases."""
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_interleave_moe_layer_step(config["interleave_moe_layer_step"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    divide_frequencies(writer, config, config["rope_parameters"])
    for layer in range(config["num_hidden_layers"]):
        stack_experts(tensors, layer, config["num_local_experts"], "feed_forward")


MODELS = {
    "gpt-oss": ("gpt-oss", MODEL_ARCH.GPT_OSS, gpt_oss),
    "gpt-oss-mxfp4": ("gpt-oss-mxfp4", MODEL_ARCH.GPT_OSS, gpt_oss),
    "deepseek-v2": ("deepseek-v2", MODEL_ARCH.DEEPSEEK2, deepseek(is_apart=False)),
    "deepseek-v2-apart": ("deepseek-v2", MODEL_ARCH.DEEPSEEK2, deepseek(is_apart=True)),
    "deepseek-v3-apart": ("deepseek-v3", MODEL_ARCH.DEEPSEEK2, deepseek(is_apart=True)),
    "gemma4": ("gemma4", MODEL_ARCH.GEMMA4, gemma4),
    "gemma4-moe": ("gemma4-moe", MODEL_ARCH.GEMMA4, gemma4),
    "gemma4-moe-blocks": ("gemma4-moe", MODEL_ARCH.GEMMA4, in_blocks(gemma4, GEMMA4_FORMATS, is_widened=False)),
    "gemma4-moe-widened": ("gemma4-moe", MODEL_ARCH.GEMMA4, in_blocks(gemma4, GEMMA4_FORMATS, is_widened=True)),
    "gemma4-small": ("gemma4-small", MODEL_ARCH.GEMMA4, gemma4),
    "gemma3n": ("gemma3n", MODEL_ARCH.GEMMA3N, gemma3n),
    "gpt-neox": ("gpt-neox", MODEL_ARCH.GPTNEOX, gpt_neox),
    "gpt2": ("gpt2", MODEL_ARCH.GPT2, gpt2),
    "chatglm": ("glm", MODEL_ARCH.CHATGLM, chatglm),
    "olmo3": ("olmo3", MODEL_ARCH.OLMO2, olmo3),
    "olmoe": ("olmoe", MODEL_ARCH.OLMOE, olmoe),
    "exaone4": ("exaone4", MODEL_ARCH.EXAONE4, exaone4),
    "seed-oss": ("seed-oss", MODEL_ARCH.SEED_OSS, plain),
    "ernie4-5": ("ernie4-5", MODEL_ARCH.ERNIE4_5, plain),
    "ernie4-5-moe": ("ernie4-5-moe", MODEL_ARCH.ERNIE4_5_MOE, ernie_moe),
    "glm4-moe": ("glm4-moe", MODEL_ARCH.GLM4_MOE, grouped),
    "dots1": ("dots1", MODEL_ARCH.DOTS1, grouped),
    "minimax-m2": ("minimax-m2", MODEL_ARCH.MINIMAXM2, minimax_m2),
    "afmoe": ("afmoe", MODEL_ARCH.AFMOE, afmoe),
    "qwen3-vl": ("qwen3-vl", MODEL_ARCH.QWEN3VL, plain),
    "qwen3-vl-moe": ("qwen3-vl-moe", MODEL_ARCH.QWEN3VLMOE, qwen3_vl_moe),
    "granite-moe-shared": ("granite-moe-shared", MODEL_ARCH.GRANITE_MOE, granite_moe),
    "granite-hybrid-mamba": ("granite-hybrid-mamba", MODEL_ARCH.GRANITE_HYBRID, granite_hybrid),
    # As the small releases, which have no experts; a converter calls a model without scans by another name.
    "granite-hybrid-dense": ("granite4", MODEL_ARCH.GRANITE_HYBRID, granite_hybrid),
    "arcee": ("arcee", MODEL_ARCH.ARCEE, arcee),
    "mistral3": ("mistral3", MODEL_ARCH.MISTRAL3, mistral3),
    "mistral4": ("mistral4", MODEL_ARCH.MISTRAL4, mistral4),
    "falcon-h1": ("falcon-h1", MODEL_ARCH.FALCON_H1, falcon_h1),
    "hunyuan": ("hunyuan", MODEL_ARCH.HUNYUAN_DENSE, hunyuan),
    "hunyuan-moe": ("hunyuan-moe", MODEL_ARCH.HUNYUAN_MOE, hunyuan_moe),
    "nemotron": ("nemotron", MODEL_ARCH.NEMOTRON, nemotron),
    "nemotron-h": ("nemotron-h", MODEL_ARCH.NEMOTRON_H_MOE, nemotron_h),
    "nemotron-h-latent": ("nemotron-h-latent", MODEL_ARCH.NEMOTRON_H_MOE, nemotron_h),
    "bitnet": ("bitnet", MODEL_ARCH.BITNET, bitnet),
    "apertus": ("apertus", MODEL_ARCH.APERTUS, apertus),
    "llama4": ("llama4-text", MODEL_ARCH.LLAMA4, llama4),
    "lfm2": ("lfm2", MODEL_ARCH.LFM2, lfm2),
    "lfm2-bias": ("lfm2-bias", MODEL_ARCH.LFM2, lfm2),
    "lfm2-moe": ("lfm2-moe", MODEL_ARCH.LFM2MOE, lfm2),
    "qwen3-next": ("qwen3-next", MODEL_ARCH.QWEN3NEXT, hybrid()),
    "qwen3-next-joined": ("qwen3-next", MODEL_ARCH.QWEN3NEXT, hybrid(is_split=False)),
    "qwen3.5": ("qwen3.5", MODEL_ARCH.QWEN35, hybrid(drafts=1)),
    "qwen3.5-text": ("qwen3.5-text", MODEL_ARCH.QWEN35, hybrid()),
    "qwen3.5-moe": ("qwen3.5-moe", MODEL_ARCH.QWEN35MOE, hybrid()),
    "qwen3.5-blocks": ("qwen3.5", MODEL_ARCH.QWEN35, in_blocks(hybrid(), HYBRID_FORMATS, is_widened=False)),
    "qwen3.5-widened": ("qwen3.5", MODEL_ARCH.QWEN35, in_blocks(hybrid(), HYBRID_FORMATS, is_widened=True)),
    "stablelm": ("stablelm", MODEL_ARCH.STABLELM, stablelm),
    "stablelm-parallel": ("stablelm-parallel", MODEL_ARCH.STABLELM, stablelm),
    "phi": ("phi", MODEL_ARCH.PHI2, phi2(is_joined=False)),
    "phi-joined": ("phi", MODEL_ARCH.PHI2, phi2(is_joined=True)),
    "olmo": ("olmo", MODEL_ARCH.OLMO, olmo),
    "internlm2": ("internlm2", MODEL_ARCH.INTERNLM2, internlm2),
    "phimoe": ("phimoe-usual", MODEL_ARCH.PHIMOE, phimoe),
}


def stored(tensor: np.ndarray | Stored) -> Stored:
    """The tensor's bytes, and the format that they are in."""
    if isinstance(tensor, Stored):
        return tensor
    if tensor.dtype == np.uint8:
        return Stored(np.ascontiguousarray(tensor), GGMLQuantizationType.MXFP4)
    if tensor.ndim == 1:
        return Stored(np.ascontiguousarray(tensor), GGMLQuantizationType.F32)
    bits = np.ascontiguousarray(tensor).view(np.uint32)
    assert (bits & 0xFFFF == 0).all()
    return Stored((bits >> 16).astype(np.uint16).view(np.uint8), GGMLQuantizationType.BF16)


# Of tensors: those of encoders have bounds, too.
ENDINGS = (".weight", ".bias", *(f".{side}put_{end}" for side in ("in", "out") for end in ("min", "max")))


def write_tensors(writer: gguf.GGUFWriter, tensors: dict[str, np.ndarray], arch: MODEL_ARCH, layers: int) -> None:
    """Ends the file. Names of an encoder, and of a head that converters make, may be those of the format already."""
    names = get_tensor_name_map(arch, layers)
    for original, tensor in tensors.items():
        is_known = original.startswith("cls.output.") or (arch == MODEL_ARCH.MMPROJ and original.startswith(("v.", "mm.", "a.")))
        known = original if is_known else names.get_name(original, try_suffixes=ENDINGS)
        assert known is not None, original
        numbers, dtype = stored(tensor)
        writer.add_tensor(known, numbers, raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_model(goldens: Path, into: Path, name: str) -> None:
    folder, arch, convert = MODELS[name]
    config, tensors = read_folder(goldens / folder)
    path = into / f"{name}.gguf"
    writer = gguf.GGUFWriter(path, MODEL_ARCH_NAMES[arch])
    shared_keys(writer, config)
    convert(writer, config, tensors)
    # As many more as guess tokens ahead.
    write_tensors(writer, tensors, arch, 1 + (config.get("num_hidden_layers") or config["n_layer"]))


def main() -> None:
    goldens, into = Path(sys.argv[1]), Path(sys.argv[2])
    into.mkdir(exist_ok=True)
    for name in sys.argv[3:] or MODELS:
        write_model(goldens, into, name)
        print(name)


if __name__ == "__main__":
    main()
