"""Trains the small vocabularies of test/fixtures/sentencepiece and writes what SentencePiece makes of some texts.

Run in the root of the repository: pip install sentencepiece==0.2.2; python tools/sentencepiece/make-goldens.py
"""

import json
import os
import random
import shutil
import tempfile

import sentencepiece

OUT = os.path.abspath("test/fixtures/sentencepiece")
PAGES = ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "test/README.md"]
OTHER_SCRIPTS = ["Ünïcödé wörds äöü ß in ein paar Sätzen.", "日本語のテキスト 漢字かな", "русский текст здесь", "½ ﬁ ℃ ① ＡＢＣ"]
# From code points to code points: a ligature, full-width letters, and what counts as a space.
RULES = {"FB01": "66 69", "2103": "B0 43", "FF21": "41", "FF22": "42", "FF23": "43", "200B": "20", "A0": "20", "9": "20", "A": "20"}
PLAIN = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "byte_fallback": True, "vocab_size": 620}
KINDS = {
    "unigram": {"model_type": "unigram", "vocab_size": 420, "normalization_rule_tsv": "rules.tsv"},
    "unigram-bytes": {"model_type": "unigram", "add_dummy_prefix": False, **PLAIN},
    "bpe": {"model_type": "bpe", "user_defined_symbols": ["<call>"], **PLAIN},
    "bpe-no-prefix": {"model_type": "bpe", "user_defined_symbols": ["▁▁▁", "<call>"], "add_dummy_prefix": False, **PLAIN},
}
TEXTS = [
    "Hello world", "two  spaces ", "a", "", "The engine reads the model.", "Ünïcödé wörds", "日本語 漢字", "русский текст",
    "½ ﬁ ℃ ＡＢＣ", "emoji 👩‍💻 and \t tabs\nand\nlines", "def f(x):\n    return x + 1\n", "now <call>weather</call>",
    "numbers 1234567 3.14", "don't stop", "x" * 50, "weights are read, not mapped", "a b c d e f g", "trailing space ",
    "CamelCaseWords and_snake_case", "zero\u200bwidth \u00a0nbsp", "bom \ufeff inside",
]
WORDS = "the engine reads a model tokens scheduler blocks step layer kernel é ü 漢 я 7 42 , . : ( ) - _ /".split()


def main():
    lines = [line.strip() for page in PAGES for line in open(page, encoding="utf8") if line.strip()]
    draw = random.Random(1)
    texts = TEXTS + [" ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 14))) for _ in range(60)]
    os.makedirs(OUT, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("corpus.txt", "w", encoding="utf8") as file:
            file.write("\n".join(lines + 3 * OTHER_SCRIPTS))
        with open("rules.tsv", "w", encoding="utf8") as file:
            file.writelines(f"{source}\t{target}\n" for source, target in RULES.items())
        for name, kind in KINDS.items():
            sentencepiece.SentencePieceTrainer.train(
                input="corpus.txt", model_prefix=name, hard_vocab_limit=False, character_coverage=0.9995, minloglevel=2, **kind
            )
            processor = sentencepiece.SentencePieceProcessor(model_file=f"{name}.model")
            shutil.copy(f"{name}.model", OUT)
            with open(f"{OUT}/{name}.jsonl", "w", encoding="utf8") as file:
                for text in texts:
                    ids = processor.encode(text)
                    vector = {"text": text, "ids": ids, "decoded": processor.decode(ids)}
                    file.write(json.dumps(vector, ensure_ascii=False) + "\n")


main()
