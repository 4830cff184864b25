"""Makes tiny random embedding models and rerankers, with what the original implementation makes of some texts.

    python pooling.py ../../test/fixtures/pooling [name ...]

writes a folder for each model, as such models are published: config.json, model.safetensors (bfloat16), the tokenizer, and
where it has them modules.json and 1_Pooling. golden.json has texts or pairs of texts, their token ids, and in float32 the
embedding or the score of each. The same names give the same files.
"""

import json
import math
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers as t
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = [
    "a cat sat on the mat",
    "The quick brown fox jumps over the lazy dog, and the dog does not mind at all: it sleeps in the sun, yes, all day long.",
    "x",
    "Überraschung! naïve café ÀÉÎÕÜ",
    "日本語のテキスト and 中文",
    "tabs\tand\nlines  and   spaces ",
    "[SEP] in the text, </s> and [CLS] and [MASK], <mask> too",
    "emoji 🙂👍🏽 and e\u0301 combined, zero\u200bwidth, \u00a0no break",
    "1234567890 3.14 $5 a_b c-d don't (really)?",
    "no yes",
]
PAIRS = [
    ("what is a cat?", "a cat is an animal that sleeps all day"),
    ("what is a cat?", "no"),
    ("café", "The quick brown fox jumps over the lazy dog, and the dog does not mind at all"),
    ("日本", "text of the [SEP] sun </s>"),
]
CORPUS = [*TEXTS, *(text for pair in PAIRS for text in pair)] * 4
ENCODER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "attention_probs_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
}
DECODER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
}
NOISE = ("_name_or_path", "transformers_version", "output_hidden_states", "output_attentions", "return_dict")


def word_piece() -> Tokenizer:
    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words = [word for text in CORPUS for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))]
    chars = sorted({char for word in words for char in word})
    inside = sorted({f"##{word[i : i + 2]}" for word in words for i in range(1, len(word) - 1)})
    whole = sorted({word for word in words if words.count(word) > 4})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = dict.fromkeys([*special, *chars, *(f"##{char}" for char in chars), *inside, *whole])
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.decoder = decoders.WordPiece()
    # As many are published: cut and filled up for training.
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=16, pad_id=0, pad_token="[PAD]")
    return tokenizer


def unigram() -> Tokenizer:
    words = [f"\u2581{word}" for text in CORPUS for word in text.split()]
    counts = Counter(piece for word in words for piece in [word, *word, *(word[i : i + 2] for i in range(len(word) - 1))])
    common = [piece for piece, count in sorted(counts.items()) if count > 4 or len(piece) == 1]
    pieces = [(piece, round(math.log(counts[piece] / sum(counts.values())), 3)) for piece in common]
    special = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    tokenizer = Tokenizer(models.Unigram([*special, *pieces], unk_id=3))
    tokenizer.add_special_tokens([*(text for text, _ in special), "<mask>"])
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def byte_level(ends: bool) -> Tokenizer:
    """@param ends whether the end token follows each text, as in Qwen3's embedding models."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([*CORPUS, *["yes", "no"] * 50], trainer)
    byte = processors.ByteLevel(trim_offsets=False)
    template = processors.TemplateProcessing(
        single="$A <|endoftext|>", pair="$A $B:1 <|endoftext|>:1", special_tokens=[("<|endoftext|>", 0)]
    )
    tokenizer.post_processor = processors.Sequence([byte, template]) if ends else byte
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def modules(*kinds: str) -> list[dict]:
    folders = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize", "LogitScore": "1_LogitScore"}
    return [
        {"idx": i, "name": str(i), "path": folders.get(kind, f"{i}_{kind}"), "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(["Transformer", *kinds])
    ]


def pooling_file(mode: str) -> dict:
    modes = ["cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]
    return {"word_embedding_dimension": 32} | {f"pooling_mode_{one}": one == mode for one in modes}


QWEN3_BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
QWEN3_AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def qwen3_pair(tokenizer: t.PreTrainedTokenizerFast, query: str, document: str) -> list[int]:
    task = "Given a web search query, retrieve relevant passages that answer the query"
    body = f"<Instruct>: {task}\n<Query>: {query}\n<Document>: {document}"
    return [id for part in (QWEN3_BEFORE, body, QWEN3_AFTER) for id in tokenizer.encode(part, add_special_tokens=False)]


@dataclass(frozen=True)
class Recipe:
    config: Callable[[int], t.PreTrainedConfig]
    """Of the size of the vocabulary."""
    tokenizer: Callable[[], Tokenizer]
    auto: type = t.AutoModel
    pooling: str | None = None
    """The row of the embedding; None scores pairs."""
    isNormalized: bool = True
    architecture: str | None = None
    """The name in config.json, where it is another than that of the class."""
    files: dict[str, object] = field(default_factory=dict)
    scores: bool = False
    ofTokens: tuple[str, str] | None = None
    """Texts of the tokens whose logits are the score, the one that fits first."""
    isQwen3: bool = False
    overrides: dict[str, object] = field(default_factory=dict)
    spread: float = 0.15
    dense: tuple[tuple[int, int, bool, str], ...] = ()
    """Products behind the pooling, from 2_Dense on: inputs, outputs, whether it has a bias, and the activation."""
    leftOut: tuple[str, ...] = ()
    """Fields of config.json."""
    prefix: tuple[str, str] | None = None
    """Of names of tensors, and what its authors' code has in its place."""
    stretch: float = 1
    """Of positions, as GTE does it."""


def modernbert(vocab: int, **more: object) -> t.PreTrainedConfig:
    """One layer that sees all and two whose window is far shorter than most texts."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
    ids = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    return t.ModernBertConfig(**sizes, **ids, vocab_size=vocab, max_position_embeddings=256, local_attention=8, **more)


def embedding_gemma(vocab: int) -> t.PreTrainedConfig:
    kinds = ["sliding_attention", "sliding_attention", "full_attention"]
    sizes = DECODER | {"num_hidden_layers": 3, "num_key_value_heads": 1, "head_dim": 16, "layer_types": kinds}
    return t.Gemma3TextConfig(**sizes, vocab_size=vocab, sliding_window=8, query_pre_attn_scalar=16, use_bidirectional_attention=True)


def bert(vocab: int, **more: object) -> t.PreTrainedConfig:
    return t.BertConfig(**ENCODER, vocab_size=vocab, max_position_embeddings=128, pad_token_id=0, **more)


def roberta(vocab: int, cls: type = t.XLMRobertaConfig, **more: object) -> t.PreTrainedConfig:
    sizes = {"vocab_size": vocab, "max_position_embeddings": 130, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    return cls(**ENCODER, **sizes, bos_token_id=0, pad_token_id=1, eos_token_id=2, **more)


def qwen3(vocab: int, **more: object) -> t.PreTrainedConfig:
    return t.Qwen3Config(**DECODER, vocab_size=vocab, pad_token_id=0, **more)


def distilbert(vocab: int, **more: object) -> t.PreTrainedConfig:
    sizes = {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 128}
    return t.DistilBertConfig(**sizes, vocab_size=vocab, pad_token_id=0, attention_dropout=0.0, dropout=0.0, **more)


def nomic_bert(vocab: int) -> t.PreTrainedConfig:
    return t.NomicBertConfig(**ENCODER, vocab_size=vocab, max_position_embeddings=128)


def gte(vocab: int, **more: object) -> t.PreTrainedConfig:
    return t.GteConfig(**ENCODER, vocab_size=vocab, max_position_embeddings=128, **more)


NOMIC_FIELDS = {
    "n_embd": 32,
    "n_head": 4,
    "n_inner": 48,
    "n_layer": 2,
    "n_positions": 512,
    "max_trained_positions": 128,
    "activation_function": "swiglu",
    "layer_norm_epsilon": 1e-12,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "prenorm": False,
    "parallel_block": False,
    "qkv_proj_bias": False,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "use_rms_norm": False,
    "causal": False,
}

MODELS = {
    "bert-cls": Recipe(bert, word_piece, pooling="cls_token", files={"modules.json": modules("Pooling", "Normalize")}),
    "bert-mean": Recipe(
        lambda vocab: bert(vocab, hidden_act="gelu_new"),
        word_piece,
        pooling="mean_tokens",
        isNormalized=False,
        files={"modules.json": modules("Pooling"), "sentence_bert_config.json": {"max_seq_length": 100, "do_lower_case": False}},
        overrides={"matryoshka_dimensions": [8, 16, 32]},
    ),
    "xlm-roberta-mean": Recipe(roberta, unigram, pooling="mean_tokens", files={"modules.json": modules("Pooling", "Normalize")}),
    "roberta-bare": Recipe(lambda vocab: roberta(vocab, t.RobertaConfig), unigram, pooling="cls_token"),
    "bert-reranker": Recipe(
        lambda vocab: bert(vocab, num_labels=1),
        word_piece,
        t.AutoModelForSequenceClassification,
        scores=True,
        overrides={"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}},
    ),
    "xlm-roberta-reranker": Recipe(lambda vocab: roberta(vocab, num_labels=1), unigram, t.AutoModelForSequenceClassification, scores=True),
    "qwen3-embedding": Recipe(
        lambda vocab: qwen3(vocab, tie_word_embeddings=True),
        lambda: byte_level(True),
        pooling="lasttoken",
        architecture="Qwen3ForCausalLM",
        files={"modules.json": modules("Pooling", "Normalize")},
    ),
    "qwen3-reranker": Recipe(
        lambda vocab: qwen3(vocab, tie_word_embeddings=True),
        lambda: byte_level(False),
        t.AutoModelForCausalLM,
        scores=True,
        ofTokens=("yes", "no"),
        isQwen3=True,
    ),
    "qwen3-reranker-seq-cls": Recipe(
        lambda vocab: qwen3(vocab, num_labels=1, tie_word_embeddings=True),
        lambda: byte_level(False),
        t.AutoModelForSequenceClassification,
        scores=True,
        isQwen3=True,
    ),
    "distilbert-mean": Recipe(distilbert, word_piece, pooling="mean_tokens", files={"modules.json": modules("Pooling", "Normalize")}),
    "bert-dense": Recipe(
        bert,
        word_piece,
        pooling="mean_tokens",
        isNormalized=False,
        files={"modules.json": modules("Pooling", "Dense")},
        dense=((32, 24, True, "Tanh"),),
    ),
    "embedding-gemma": Recipe(
        embedding_gemma,
        lambda: byte_level(True),
        pooling="mean_tokens",
        files={"modules.json": modules("Pooling", "Dense", "Dense", "Normalize")},
        dense=((32, 64, False, "Identity"), (64, 32, False, "Identity")),
        overrides={"matryoshka_dimensions": [8, 16, 32]},
    ),
    "modernbert-cls": Recipe(modernbert, word_piece, pooling="cls_token", files={"modules.json": modules("Pooling", "Normalize")}),
    "modernbert-reranker": Recipe(
        lambda vocab: modernbert(vocab, num_labels=1, classifier_pooling="mean"),
        word_piece,
        t.AutoModelForSequenceClassification,
        scores=True,
        overrides={"rope_parameters": None, "layer_types": None, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0},
    ),
    "distilbert-reranker": Recipe(
        lambda vocab: distilbert(vocab, num_labels=1, seq_classif_dropout=0.0),
        word_piece,
        t.AutoModelForSequenceClassification,
        scores=True,
    ),
    "nomic-bert-mean": Recipe(
        nomic_bert,
        word_piece,
        pooling="mean_tokens",
        files={"modules.json": modules("Pooling", "Normalize")},
        overrides=NOMIC_FIELDS,
        leftOut=(*ENCODER, "hidden_act", "head_dim", "layer_norm_eps", "max_position_embeddings", "rope_parameters"),
    ),
    "gte-cls": Recipe(
        lambda vocab: gte(vocab, type_vocab_size=0), word_piece, pooling="cls_token", files={"modules.json": modules("Pooling", "Normalize")}
    ),
    "gte-reranker": Recipe(
        lambda vocab: gte(vocab, num_labels=1, rope_parameters={"rope_type": "default", "rope_theta": 20000.0}),
        unigram,
        t.AutoModelForSequenceClassification,
        scores=True,
        architecture="NewForSequenceClassification",
        overrides={"rope_theta": 20000, "rope_scaling": {"factor": 8.0, "type": "ntk"}, "pack_qkv": True, "position_embedding_type": "rope"},
        leftOut=("rope_parameters",),
        prefix=("gte.", "new."),
        stretch=8,
    ),
}


def random_weights(model: torch.nn.Module, spread: float) -> None:
    for name, parameter in model.named_parameters():
        values = torch.randn_like(parameter)
        if parameter.dim() > 1:
            values *= spread
        elif "norm" in name.lower() and name.endswith("weight"):
            values = 1 + values * 0.1
        else:
            values *= 0.1
        parameter.data = values.to(torch.bfloat16).to(torch.float32)
    if isinstance(model, t.PreTrainedModel):
        model.tie_weights()


def pooled(hidden: torch.Tensor, mode: str) -> torch.Tensor:
    if mode == "cls_token":
        return hidden[0]
    return hidden[-1] if mode == "lasttoken" else hidden.mean(0)


def dense_layers(recipe: Recipe, folder: Path) -> list[torch.nn.Module]:
    """Makes the layers, and their folders as they are published."""
    layers = []
    for i, (inputs, outputs, bias, activation) in enumerate(recipe.dense):
        linear = torch.nn.Linear(inputs, outputs, bias)
        random_weights(linear, recipe.spread)
        layers += [linear, getattr(torch.nn, activation)()]
        path = folder / f"{i + 2}_Dense"
        path.mkdir()
        kind = "linear" if activation == "Identity" else "activation"
        fields = {"in_features": inputs, "out_features": outputs, "bias": bias, "activation_function": f"torch.nn.modules.{kind}.{activation}"}
        (path / "config.json").write_text(json.dumps(fields) + "\n")
        save_file({f"linear.{key}": value.to(torch.bfloat16) for key, value in linear.state_dict().items()}, path / "model.safetensors")
    return layers


def embeddings(recipe: Recipe, model: torch.nn.Module, dense: list, tokenizer: t.PreTrainedTokenizerFast) -> list[dict]:
    cases = []
    for text in TEXTS:
        encoded = tokenizer(text, return_tensors="pt")
        hidden = model(input_ids=encoded["input_ids"]).last_hidden_state[0]
        values = torch.nn.Sequential(*dense)(pooled(hidden, recipe.pooling))
        values = torch.nn.functional.normalize(values, dim=0) if recipe.isNormalized else values
        cases.append({"text": text, "ids": encoded["input_ids"][0].tolist(), "values": values.tolist()})
    return cases


def scores(recipe: Recipe, model: torch.nn.Module, tokenizer: t.PreTrainedTokenizerFast) -> list[dict]:
    cases = []
    for first, second in PAIRS:
        encoded = tokenizer(first, second, return_token_type_ids=True)
        types = encoded["token_type_ids"] if 1 in encoded["token_type_ids"] and not recipe.isQwen3 else None
        ids = qwen3_pair(tokenizer, first, second) if recipe.isQwen3 else encoded["input_ids"]
        inputs = {"input_ids": torch.tensor([ids])} | ({"token_type_ids": torch.tensor([types])} if type(model.config) is t.BertConfig else {})
        logits = model(**inputs).logits
        if recipe.ofTokens:
            yes, no = (tokenizer.convert_tokens_to_ids(token) for token in recipe.ofTokens)
            raw = (logits[0, -1, yes] - logits[0, -1, no]).item()
        else:
            raw = logits[0, 0].item()
        isRaw = "sentence_transformers" in recipe.overrides
        cases.append({"pair": [first, second], "ids": ids, "types": types, "score": raw if isRaw else 1 / (1 + math.exp(-raw))})
    return cases


def stretch(rotation: torch.nn.Module, factor: float) -> None:
    """As GTE's authors do it, which transformers does not know: the base times the factor, and all angles a little smaller still."""
    pairs = rotation.inv_freq.numel()
    rotation.inv_freq /= factor ** ((torch.arange(pairs) + 1) / pairs)


def published(model: t.PreTrainedModel, prefix: tuple[str, str] | None) -> dict[str, torch.Tensor]:
    """Under the names of the published files, which are not those of the modules everywhere."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        state = load_file(f"{folder}/model.safetensors")
    return state if prefix is None else {key.replace(*prefix): value for key, value in state.items()}


@torch.no_grad()
def make_model(folder: Path, name: str) -> None:
    recipe = MODELS[name]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch.manual_seed(30400 + list(MODELS).index(name))
    made = recipe.tokenizer()
    made.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}\n')
    made.no_truncation()
    made.no_padding()
    tokenizer = t.PreTrainedTokenizerFast(tokenizer_object=made)
    model = recipe.auto.from_config(recipe.config(made.get_vocab_size()), dtype=torch.float32, attn_implementation="eager")
    model.eval()
    random_weights(model, recipe.spread)
    if recipe.stretch != 1:
        stretch(model.base_model.rotary_emb, recipe.stretch)
    config = {k: v for k, v in model.config.to_dict().items() if v is not None and k not in (*NOISE, *recipe.leftOut)}
    named = {"architectures": [recipe.architecture or type(model).__name__], "dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config | named | recipe.overrides, indent=1) + "\n")
    for path, content in recipe.files.items():
        (folder / path).write_text(json.dumps(content) + "\n")
    if recipe.pooling and recipe.files:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling/config.json").write_text(json.dumps(pooling_file(recipe.pooling)) + "\n")
    dense = dense_layers(recipe, folder)
    cases = scores(recipe, model, tokenizer) if recipe.scores else embeddings(recipe, model, dense, tokenizer)
    made_with = f"transformers {t.__version__}, torch {torch.__version__}, eager attention, float32"
    (folder / "golden.json").write_text(json.dumps({"made_with": made_with, "cases": cases}, ensure_ascii=False, separators=(",", ":")) + "\n")
    isRenamed = isinstance(model.config, (t.NomicBertConfig, t.GteConfig))
    named = published(model, recipe.prefix) if isRenamed else model.state_dict()
    state = {key: value.to(torch.bfloat16).contiguous() for key, value in named.items()}
    if getattr(model.config, "tie_word_embeddings", False):
        state.pop("lm_head.weight", None)
    save_file(state, folder / "model.safetensors")
    print(name, [case.get("score") or round(sum(case["values"]), 4) for case in cases][:4])


if __name__ == "__main__":
    root, *names = sys.argv[1:]
    for name in names or MODELS:
        make_model(Path(root) / name, name)
