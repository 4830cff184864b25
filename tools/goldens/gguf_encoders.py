"""Writes tiny models that see images as two GGUF files each, in the names and the order of numbers that llama.cpp's converters write.

    pip install gguf==0.19.0 safetensors torch
    python tools/goldens/gguf_encoders.py test/fixtures/vision test/fixtures/gguf-vision

One file has the part that reads text, the other one what sees images. Numbers stay what they are: matrices in BF16, which holds them, vectors
in F32.
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, VisionProjectorType
from gguf_models import gemma4, hybrid, lfm2, paired, shared_keys, usual, write_tensors
from safetensors import safe_open

Tensors = dict[str, np.ndarray]

# What the names of the original's tensors of text and of images begin with.
TEXT_ROOTS = ("model.language_model.", "model.text_model.")
IMAGE_ROOTS = ("model.visual.", "model.vision_tower.", "model.vision_model.", "model.multi_modal_projector.", "model.connector.", "model.embed_vision.")


def read_parts(folder: Path) -> tuple[dict, Tensors, Tensors]:
    """config.json, the tensors of the text as if it were published by itself, and those of the encoder."""
    config = json.loads((folder / "config.json").read_text())
    text, encoder = {}, {}
    with safe_open(folder / "model.safetensors", "pt") as file:
        for name in file.keys():
            tensor = file.get_tensor(name).to(torch.float32).numpy()
            name = f"model.{name}" if name.startswith(("vision_tower.", "multi_modal_projector.")) else name
            if name.startswith(IMAGE_ROOTS):
                encoder[name] = tensor
                continue
            for root in TEXT_ROOTS:
                name = name.replace(root, "model.")
            text[name] = tensor
    return config, text, encoder


# Text


def qwen(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> None:
    usual(writer, config)
    writer.add_rope_dimension_sections([*config["rope_parameters"]["mrope_section"], 0])


def qwen3(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> None:
    qwen(writer, config, tensors)
    writer.add_num_deepstack_layers(2)


def llama(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> None:
    usual(writer, config)
    writer.add_rope_dimension_count(config["head_dim"])
    paired(tensors, {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]})


def gemma3(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> None:
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_sliding_window(config["sliding_window"])
    for name in tensors:
        if name.endswith("norm.weight"):
            tensors[name] = tensors[name] + 1


def tied(convert):
    """The head is the embeddings."""

    def without_head(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> None:
        convert(writer, config, tensors)
        tensors.pop("lm_head.weight", None)

    return without_head


def padded_gemma4(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> None:
    gemma4(writer, config, tensors)
    writer.add_pad_token_id(config["pad_token_id"])


# Encoders


def common_keys(writer: gguf.GGUFWriter, config: dict, vision: dict, image_size: int, mean: float = 0.5, std: float = 0.5) -> None:
    writer.add_clip_has_vision_encoder(True)
    writer.add_vision_projection_dim(config["text_config"]["hidden_size"])
    writer.add_vision_image_size(image_size)
    writer.add_vision_patch_size(vision["patch_size"])
    writer.add_vision_embedding_length(vision["hidden_size"])
    writer.add_vision_feed_forward_length(vision["intermediate_size"])
    writer.add_vision_block_count(vision["num_hidden_layers"])
    writer.add_vision_head_count(vision["num_attention_heads"])
    writer.add_vision_image_mean([mean] * 3)
    writer.add_vision_image_std([std] * 3)
    writer.add_vision_attention_layernorm_eps(1e-6)


def renamed(tensors: Tensors, *changes: tuple[str, str]) -> Tensors:
    """In the names that the package knows."""
    result = {}
    for name, tensor in tensors.items():
        for original, known in changes:
            name = name.replace(original, known)
        result[name] = tensor
    return result


def outside(tensors: Tensors) -> Tensors:
    """In the names of older releases."""
    return {name.removeprefix("model."): tensor for name, tensor in tensors.items()}


def split_frames(tensors: Tensors) -> Tensors:
    patches = tensors.pop("visual.patch_embed.proj.weight")
    return tensors | {"v.patch_embd.weight": patches[:, :, 0], "v.patch_embd.weight.1": patches[:, :, 1]}


def split_qkv(tensors: Tensors) -> Tensors:
    result = {}
    for name, tensor in tensors.items():
        if ".qkv." in name:
            result |= {name.replace("qkv", kind): part for kind, part in zip("qkv", np.split(tensor, 3))}
        else:
            result[name] = tensor
    return result


def qwen_keys(writer: gguf.GGUFWriter, config: dict, image_size: int, **sizes: int) -> None:
    vision = config["vision_config"]
    names = {"num_hidden_layers": vision["depth"], "num_attention_heads": vision["num_heads"]}
    common_keys(writer, config, vision | names | sizes, image_size)


def qwen2_encoder(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    """As the first converters wrote it: the products of the feed-forward with each other's names, and no word of its width."""
    writer.add_clip_projector_type(VisionProjectorType.QWEN2VL)
    qwen_keys(writer, config, 560, hidden_size=config["vision_config"]["embed_dim"], intermediate_size=0)
    swapped = (("fc1", "fc"), ("fc2", "fc1"), (".fc.", ".fc2."))
    # Zeros in the place of positions, which are not learned.
    empty = {"v.position_embd.weight": np.zeros((10, 10), dtype=np.float32)}
    return empty | split_qkv(split_frames(renamed(tensors, ("model.visual", "visual"), *swapped)))


def qwen25_encoder(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    vision = config["vision_config"]
    writer.add_clip_projector_type(VisionProjectorType.QWEN25VL)
    writer.add_vision_use_silu(True)
    writer.add_vision_n_wa_pattern(vision["fullatt_block_indexes"][0] + 1)
    # Of all releases but these it is 112, and not in the file.
    writer.add_uint32("clip.vision.window_size", vision["window_size"])
    qwen_keys(writer, config, 560)
    return split_qkv(split_frames(renamed(tensors, ("model.visual", "visual"))))


def qwen3_encoder(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    vision = config["vision_config"]
    deep = vision.get("deepstack_visual_indexes", [])
    writer.add_clip_projector_type(VisionProjectorType.QWEN3VL)
    writer.add_vision_use_gelu(True)
    writer.add_vision_spatial_merge_size(vision["spatial_merge_size"])
    writer.add_vision_is_deepstack_layers([layer in deep for layer in range(vision["depth"])])
    qwen_keys(writer, config, int(vision["num_position_embeddings"] ** 0.5) * vision["patch_size"])
    mergers = [(f"visual.deepstack_merger_list.{index}.", f"v.deepstack.{layer}.") for index, layer in enumerate(deep)]
    names = (("visual.merger.linear_fc1", "mm.0"), ("visual.merger.linear_fc2", "mm.2"), ("visual.merger.norm", "v.post_ln"))
    result = renamed(tensors, ("model.visual", "visual"), *mergers, *names)
    return split_frames({name.replace("linear_", "") if "deepstack" in name else name: tensor for name, tensor in result.items()})


def gemma3_encoder(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    vision = config["vision_config"]
    writer.add_clip_projector_type(VisionProjectorType.GEMMA3)
    writer.add_vision_use_gelu(True)
    common_keys(writer, config, vision, vision["image_size"])
    side = vision["image_size"] // vision["patch_size"]
    writer.add_vision_projector_scale_factor(side // int(config["mm_tokens_per_image"] ** 0.5))
    result = renamed(outside(tensors), ("projection_weight", "projection.weight"))
    norm = "multi_modal_projector.mm_soft_emb_norm.weight"
    return result | {norm: result[norm] + 1}


def idefics3_encoder(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    vision = config["vision_config"]
    writer.add_clip_projector_type(VisionProjectorType.IDEFICS3)
    writer.add_vision_use_gelu(True)
    writer.add_vision_projector_scale_factor(config["scale_factor"])
    writer.add_vision_preproc_image_size(3 * vision["image_size"])
    common_keys(writer, config, vision, vision["image_size"])
    return tensors


def pixtral_encoder(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    vision = config["vision_config"]
    writer.add_clip_projector_type(VisionProjectorType.PIXTRAL)
    writer.add_rope_freq_base(vision["rope_parameters"]["rope_theta"])
    writer.add_vision_use_gelu(True)
    writer.add_vision_spatial_merge_size(config["spatial_merge_size"])
    common_keys(writer, config, vision, vision["image_size"])
    result = renamed(outside(tensors), (".attention.", ".self_attn."))
    heads = vision["num_attention_heads"]
    paired(result, {"q_proj": heads, "k_proj": heads})
    # A copy of the embedding behind each line, which converters add.
    return renamed(result, (".self_attn.", ".attention.")) | {"v.token_embd.img_break": np.zeros(32, dtype=np.float32)}


def as_convolution(tensors: Tensors, name: str, size: int) -> Tensors:
    weight = tensors[name]
    return tensors | {name: weight.reshape(weight.shape[0], size, size, 3).transpose(0, 3, 1, 2)}


def lfm2_encoder(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    vision = config["vision_config"]
    writer.add_clip_projector_type("lfm2")
    writer.add_vision_use_gelu(True)
    writer.add_vision_projector_scale_factor(config["downsample_factor"])
    common_keys(writer, config, vision, 256)
    result = renamed(outside(tensors), ("vision_tower.", "vision_tower.vision_model."))
    return as_convolution(result, "vision_tower.vision_model.embeddings.patch_embedding.weight", vision["patch_size"])


def internvl_encoder(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    vision = config["vision_config"]
    writer.add_clip_projector_type(VisionProjectorType.INTERNVL)
    writer.add_vision_use_gelu(True)
    writer.add_vision_projector_scale_factor(int(1 / config["downsample_ratio"]))
    common_keys(writer, config, vision | {"patch_size": vision["patch_size"][0]}, vision["image_size"][0])
    projector = "model.multi_modal_projector"
    names = ((f"{projector}.layer_norm", "mlp1.0"), (f"{projector}.linear_1", "mlp1.1"), (f"{projector}.linear_2", "mlp1.3"))
    weights = ("lambda_1", "lambda_2", "position_embeddings")
    return renamed(tensors, *names, *((name, f"{name}.weight") for name in weights))


def squeezed(convert):
    """As programs write it that quantise: without dimensions of one."""

    def without_ones(*given) -> Tensors:
        return {name: tensor.squeeze() if "embeddings.cls" in name or "position" in name else tensor for name, tensor in convert(*given).items()}

    return without_ones


def just(convert):
    return lambda writer, config, tensors: convert(writer, config)


def gemma4_encoder(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    vision = config["vision_config"]
    writer.add_clip_vision_projector_type("gemma4v")
    # Of all releases but these it is 3, and not in the file.
    writer.add_vision_projector_scale_factor(vision["pooling_kernel_size"])
    common_keys(writer, config, vision, 224, mean=0.0, std=1.0)
    result = renamed(tensors, ("model.vision_tower.encoder.", "vision_model.model."), (".linear.", "."), ("table", "table.weight"))
    one = {name: np.atleast_1d(tensor) for name, tensor in result.items()}
    # Converters write what hears into the same file.
    sound = {"a.blk.0.ln1.weight": np.zeros(8, dtype=np.float32), "mm.a.fc.weight": np.zeros((8, 8), dtype=np.float32)}
    return as_convolution(one, "model.vision_tower.patch_embedder.input_proj.weight", vision["patch_size"]) | sound


MODELS = {
    "qwen2-vl": (MODEL_ARCH.QWEN2VL, qwen, qwen2_encoder),
    "qwen2.5-vl": (MODEL_ARCH.QWEN2VL, qwen, qwen25_encoder),
    "qwen3-vl": (MODEL_ARCH.QWEN3VL, qwen3, qwen3_encoder),
    "qwen3.5": (MODEL_ARCH.QWEN35, hybrid(), qwen3_encoder),
    "gemma3": (MODEL_ARCH.GEMMA3, tied(gemma3), gemma3_encoder),
    "gemma4": (MODEL_ARCH.GEMMA4, tied(padded_gemma4), gemma4_encoder),
    "gemma4-small": (MODEL_ARCH.GEMMA4, tied(padded_gemma4), gemma4_encoder),
    "lfm2-vl": (MODEL_ARCH.LFM2, tied(lfm2), lfm2_encoder),
    "idefics3": (MODEL_ARCH.LLAMA, llama, idefics3_encoder),
    "internvl": (MODEL_ARCH.QWEN3, just(usual), internvl_encoder),
    "internvl-large": (MODEL_ARCH.QWEN2, just(usual), squeezed(internvl_encoder)),
    "mistral3": (MODEL_ARCH.LLAMA, llama, pixtral_encoder),
}


def main() -> None:
    folders, into = Path(sys.argv[1]), Path(sys.argv[2])
    for name in sys.argv[3:] or MODELS:
        arch, convert_text, convert_encoder = MODELS[name]
        config, text, encoder = read_parts(folders / name)
        (into / name).mkdir(parents=True, exist_ok=True)
        writer = gguf.GGUFWriter(into / name / "model.gguf", MODEL_ARCH_NAMES[arch])
        shared_keys(writer, config["text_config"])
        convert_text(writer, config["text_config"], text)
        write_tensors(writer, text, arch, config["text_config"]["num_hidden_layers"])
        writer = gguf.GGUFWriter(into / name / "mmproj-model.gguf", MODEL_ARCH_NAMES[MODEL_ARCH.MMPROJ])
        # As many as encoders have layers, or their projectors parts.
        write_tensors(writer, convert_encoder(writer, config, encoder), MODEL_ARCH.MMPROJ, 4)
        print(name)


main()
