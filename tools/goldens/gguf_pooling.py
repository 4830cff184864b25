"""Writes embedding models and rerankers as GGUF, in the names and the order of numbers that llama.cpp's converters write.

    python tools/goldens/gguf_pooling.py test/fixtures/pooling test/fixtures/gguf-pooling [name ...]

Names of tensors and keys are those of the format's own package. The tests hold what each file makes of texts against its folder.
"""

import io
import json
import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import gguf
import numpy as np
import sentencepiece
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, GGMLQuantizationType, PoolingType, TokenType
from sentencepiece import sentencepiece_model_pb2 as model_pb2

from gguf_models import Stored, read_folder, shared_keys, usual, write_tensors

Tensors = dict[str, np.ndarray]


def token_types(tokenizer: dict, tokens: list[str]) -> list[TokenType]:
    special = {token["content"] for token in tokenizer["added_tokens"]}
    return [TokenType.CONTROL if token in special else TokenType.NORMAL for token in tokens]


def by_id(vocab: dict[str, int]) -> list[str]:
    return sorted(vocab, key=lambda token: vocab[token])


def word_piece(writer: gguf.GGUFWriter, tokenizer: dict, texts: list[str]) -> None:
    """Pieces that begin a word have a space before them, and those that do not have no mark."""
    tokens = by_id(tokenizer["model"]["vocab"])
    types = token_types(tokenizer, tokens)
    marked = [
        token if type == TokenType.CONTROL else token[2:] if token.startswith("##") else f"\u2581{token}"
        for token, type in zip(tokens, types)
    ]
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("jina-v2-en")
    writer.add_token_list(marked)
    writer.add_token_types(types)
    for name, token in {"unk": "[UNK]", "bos": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}.items():
        getattr(writer, f"add_{name}_token_id")(tokens.index(token))


def code_points(text: str) -> str:
    return " ".join(f"{ord(char):X}" for char in text)


def characters_map(texts: list[str]) -> bytes:
    """SentencePiece's rules for what it replaces: those of NFKC for all that these texts have."""
    characters = {char for text in texts for char in text} | {"e\u0301"}
    composed = {char: unicodedata.normalize("NFKC", char) for char in sorted(characters)}
    with TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.tsv"
        rules.write_text("".join(f"{code_points(old)}\t{code_points(new)}\n" for old, new in composed.items() if old != new))
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["ab ba"] * 10), model_writer=model, model_type="char", vocab_size=6, normalization_rule_tsv=str(rules)
        )
    return model_pb2.ModelProto.FromString(model.getvalue()).normalizer_spec.precompiled_charsmap


def unigram(writer: gguf.GGUFWriter, tokenizer: dict, texts: list[str]) -> None:
    """The vocabulary of SentencePiece's own file, which lacks what masks, and is filled up."""
    pieces = tokenizer["model"]["vocab"]
    tokens = [piece for piece, _ in pieces]
    types = token_types(tokenizer, tokens)
    types[tokenizer["model"]["unk_id"]] = TokenType.UNKNOWN
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([*tokens, f"[PAD{len(tokens)}]"])
    writer.add_token_scores([*(score for _, score in pieces), -10000.0])
    writer.add_token_types([*types, TokenType.UNUSED])
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)
    writer.add_precompiled_charsmap(characters_map(texts))
    for name, id in {"bos": 0, "eos": 2, "unk": 3, "sep": 2, "pad": 1, "mask": len(tokens)}.items():
        getattr(writer, f"add_{name}_token_id")(id)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)
    writer.add_add_sep_token(True)


def byte_level(writer: gguf.GGUFWriter, tokenizer: dict, texts: list[str]) -> None:
    tokens = by_id(tokenizer["model"]["vocab"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(token_types(tokenizer, tokens))
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token("TemplateProcessing" in json.dumps(tokenizer["post_processor"]))


TOKENIZERS = {"WordPiece": word_piece, "Unigram": unigram, "BPE": byte_level}


def bert(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    writer.add_layer_norm_eps(config.get("layer_norm_eps", 1e-12))
    writer.add_causal_attention(False)
    if "type_vocab_size" in config:
        writer.add_token_type_count(config["type_vocab_size"])
    names = {re.sub(r"^(bert|roberta|distilbert)\.", "", name): tensor for name, tensor in tensors.items()}
    if config["model_type"] == "xlm-roberta":
        positions = "embeddings.position_embeddings.weight"
        names[positions] = names[positions][config["pad_token_id"] + 1 :]
    return names


def quantised_bert(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    """As programs write it that quantise: matrices of one row are vectors."""
    tensors = bert(writer, config, tensors)
    return {name: tensor[0] if tensor.shape[0] == 1 else tensor for name, tensor in tensors.items()}


def in_q8(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    blocks = GGMLQuantizationType.Q8_0
    return {
        name: Stored(gguf.quants.quantize(tensor, blocks), blocks) if tensor.ndim == 2 and tensor.shape[1] % 32 == 0 else tensor
        for name, tensor in bert(writer, config, tensors).items()
    }


def fused_bert(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    """Queries, keys and values in one tensor."""
    tensors = bert(writer, config, tensors)
    for layer in range(config["num_hidden_layers"]):
        attention = f"encoder.layer.{layer}.attention.self"
        for kind in ("weight", "bias"):
            parts = [tensors.pop(f"{attention}.{name}.{kind}") for name in ("query", "key", "value")]
            tensors[f"encoder.layers.{layer}.attn.Wqkv.{kind}"] = np.concatenate(parts)
    return tensors


def with_head(convert: Callable, dense: str, output: str) -> Callable:
    """A reranker, of which converters say no kind of pooling."""

    def converted(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
        writer.add_array(f"{writer.arch}.classifier.output_labels", ["LABEL_0"])
        renamed = {}
        for name, tensor in convert(writer, config, tensors).items():
            renamed[name.replace(f"{output}.", "classifier.out_proj.").replace(f"{dense}.", "classifier.dense.")] = tensor
        return renamed

    return converted


def nomic_bert(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    writer.add_rope_freq_base(config["rotary_emb_base"])
    return bert(writer, config | {"layer_norm_eps": config["layer_norm_epsilon"]}, tensors)


def modern_bert(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    ropes = config.get("rope_parameters")
    writer.add_layer_norm_eps(config["norm_eps"])
    writer.add_causal_attention(False)
    writer.add_sliding_window(config["local_attention"])
    writer.add_sliding_window_pattern(3)
    writer.add_rope_freq_base(ropes["full_attention"]["rope_theta"] if ropes else config["global_rope_theta"])
    writer.add_rope_freq_base_swa(ropes["sliding_attention"]["rope_theta"] if ropes else config["local_rope_theta"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    writer.add_vocab_size(config["vocab_size"])
    return {name.removeprefix("model."): tensor for name, tensor in tensors.items()}


def decoder(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    usual(writer, config)
    return {name if name.startswith("model.") else f"model.{name}": tensor for name, tensor in tensors.items()}


def qwen3_reranker(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    """The rows of the two tokens whose logits are the score."""
    tensors = decoder(writer, config, tensors)
    writer.add_array(f"{writer.arch}.classifier.output_labels", ["yes", "no"])
    rows = [config["token_ids"][token] for token in ("yes", "no")]
    return tensors | {"cls.output.weight": tensors["model.embed_tokens.weight"][rows]}


def gemma_embedding(writer: gguf.GGUFWriter, config: dict, tensors: Tensors) -> Tensors:
    kinds = config.pop("layer_types")
    tensors = decoder(writer, config, tensors)
    writer.add_rope_freq_base(config["rope_parameters"]["full_attention"]["rope_theta"])
    writer.add_sliding_window(config["sliding_window"])
    # Of all releases but these it is 6, and not in the file.
    writer.add_sliding_window_pattern(1 + kinds.index("full_attention"))
    return {name: tensor + 1 if name.endswith("norm.weight") else tensor for name, tensor in tensors.items()}


class Recipe(NamedTuple):
    folder: str
    arch: MODEL_ARCH
    convert: Callable
    pooling: PoolingType | None


ROBERTA_HEAD = ("classifier.dense", "classifier.out_proj")
MODELS = {
    "bert-cls": Recipe("bert-cls", MODEL_ARCH.BERT, bert, PoolingType.CLS),
    "bert-cls-fused": Recipe("bert-cls", MODEL_ARCH.BERT, fused_bert, PoolingType.CLS),
    "bert-cls-q8_0": Recipe("bert-cls", MODEL_ARCH.BERT, in_q8, PoolingType.CLS),
    # A pooler that converters leave out.
    "bert-reranker": Recipe("bert-reranker", MODEL_ARCH.BERT, with_head(bert, "pooler.dense", "classifier"), None),
    "distilbert-mean": Recipe("distilbert-mean", MODEL_ARCH.BERT, bert, PoolingType.MEAN),
    "xlm-roberta-mean": Recipe("xlm-roberta-mean", MODEL_ARCH.BERT, bert, PoolingType.MEAN),
    "xlm-roberta-reranker": Recipe("xlm-roberta-reranker", MODEL_ARCH.BERT, with_head(quantised_bert, *ROBERTA_HEAD), None),
    "nomic-bert-mean": Recipe("nomic-bert-mean", MODEL_ARCH.NOMIC_BERT, nomic_bert, PoolingType.MEAN),
    "modernbert-cls": Recipe("modernbert-cls", MODEL_ARCH.MODERN_BERT, modern_bert, PoolingType.CLS),
    "modernbert-reranker": Recipe("modernbert-reranker", MODEL_ARCH.MODERN_BERT, with_head(modern_bert, "head.dense", "classifier"), None),
    "embedding-gemma": Recipe("embedding-gemma", MODEL_ARCH.GEMMA_EMBEDDING, gemma_embedding, PoolingType.MEAN),
    "qwen3-embedding": Recipe("qwen3-embedding", MODEL_ARCH.QWEN3, decoder, PoolingType.LAST),
    "qwen3-reranker": Recipe("qwen3-reranker", MODEL_ARCH.QWEN3, qwen3_reranker, PoolingType.RANK),
}


SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings")
OWN_SIZES = {
    "distilbert": dict(zip(SIZES[:4], ("dim", "n_layers", "n_heads", "hidden_dim"))),
    "nomic_bert": dict(zip(SIZES, ("n_embd", "n_layer", "n_head", "n_inner", "max_trained_positions"))),
}


def offset(config: dict) -> int:
    return config["pad_token_id"] + 1 if config["model_type"] == "xlm-roberta" else 0


def write_model(folders: Path, into: Path, name: str) -> None:
    folder, arch, convert, pooling = MODELS[name]
    config, tensors = read_folder(folders / folder)
    tokenizer = json.loads((folders / folder / "tokenizer.json").read_text())
    config |= {ours: config[own] for ours, own in OWN_SIZES.get(config["model_type"], {}).items()}
    cases = json.loads((folders / folder / "golden.json").read_text())["cases"]
    texts = [text for case in cases for text in case.get("pair", [case.get("text")])]
    config["max_position_embeddings"] -= offset(config)
    config["token_ids"] = tokenizer["model"]["vocab"] if tokenizer["model"]["type"] == "BPE" else {}
    writer = gguf.GGUFWriter(into / f"{name}.gguf", MODEL_ARCH_NAMES[arch])
    shared_keys(writer, config)
    if pooling is not None:
        writer.add_pooling_type(pooling)
    converted = convert(writer, config, tensors)
    for dense in sorted((folders / folder).glob("*_Dense")):
        converted[f"dense_{dense.name[0]}_out.weight"] = read_folder(dense)[1]["linear.weight"]
    TOKENIZERS[tokenizer["model"]["type"]](writer, tokenizer, texts)
    # Embedding models do without BERT's pooler.
    kept = {name: tensor for name, tensor in converted.items() if not name.startswith("pooler.")}
    write_tensors(writer, kept, arch, config["num_hidden_layers"])


def main() -> None:
    folders, into = Path(sys.argv[1]), Path(sys.argv[2])
    into.mkdir(exist_ok=True)
    for name in sys.argv[3:] or MODELS:
        write_model(folders, into, name)
        print(name)


if __name__ == "__main__":
    main()
