// How byte-level tokenizers cut text into words before any merge, by the names that GGUF files give (`tokenizer.ggml.pre`): the steps of
// the tokenizers that the names stand for.

import { ModelLoadError } from '../../../errors.ts';
import { preview } from '../../../util/preview.ts';

export interface PreTokenizer {
  /** Regular expressions whose matches are cut out one after the other. */
  readonly cuts: readonly string[];
  /** Whether the words of GPT-2 are cut last. */
  readonly cutsAsGpt2?: boolean;
  /** Whether characters are composed first. */
  readonly composes?: boolean;
  /** A word that is a token is that token, whatever the merges say. */
  readonly ignoresMerges?: boolean;
  /** Whether every text begins with the bos token where the file does not say. */
  readonly addsBos?: boolean;
}

const ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const SPACES = '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)";

/** As GPT-4: so many digits a word. */
function gpt4(digits: string): string {
  return `${ENDINGS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${SPACES}`;
}

/** The same with single digits and with marks that belong to the letters before them. */
const MARKED = `${ENDINGS}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${SPACES}`;

/** Words that are cut where lower case becomes upper case, too. */
function casedWords(endings: string, except = ''): string {
  const [upper, lower] = ['Lu}\\p{Lt', 'Ll'].map((own) => `[\\p{${own}}\\p{Lm}\\p{Lo}\\p{M}${except}]`);
  const word = (letters: string) => `[^\\r\\n\\p{L}\\p{N}]?${letters}${endings}`;
  return `${word(`${upper}*${lower}+`)}|${word(`${upper}+${lower}*`)}`;
}

/** As GPT-4o. */
function gpt4o(digits: string, endings: string): string {
  return `${casedWords(endings)}|\\p{N}${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${SPACES}`;
}

/** The letters with a case that a first tokenizer of DeepSeek knows: not all that there are. */
const DEEPSEEK_LETTERS = [
  'A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373',
  '\u0376-\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f',
  '\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77',
  '\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d',
  '\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4',
  '\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139',
  '\u213c-\u213f\u2145-\u2149\u214e\u2183-\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2-\u2cf3\ua640-\ua66d',
  '\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a',
  '\uff41-\uff5a\u{10400}-\u{1044f}\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}',
  '\u{118a0}-\u{118df}\u{1e900}-\u{1e943}',
].join('');
/** Hangul, and all that Unicode has from U+0800 to the end of the first ideographs. */
const DEEPSEEK_CHARACTERS = '[一-龥\u0800-一가-\ud7ff]+';

const gpt2: PreTokenizer = { cuts: [], cutsAsGpt2: true };
const singleDigits: PreTokenizer = { cuts: ['\\p{N}'], cutsAsGpt2: true };
const llama3: PreTokenizer = { cuts: [gpt4('{1,3}')], ignoresMerges: true, addsBos: true };
const cl100k: PreTokenizer = { cuts: [gpt4('{1,3}')] };
const qwen2: PreTokenizer = { cuts: [gpt4('')], composes: true };
const o200k: PreTokenizer = { cuts: [gpt4o('{1,3}', `${ENDINGS}?`)] };

const deepseekV3: PreTokenizer = {
  cuts: [
    '\\p{N}{1,3}',
    '[一-龥぀-ゟ゠-ヿ]+',
    '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|' +
      SPACES,
  ],
};

const PRE_TOKENIZERS: Readonly<Record<string, PreTokenizer>> = {
  // Of files that were made before the names were: what llama.cpp makes of them.
  default: { cuts: ['[\\p{P}\\$\\+<=>\\^~\\|]+', GPT2, '\\p{N}+', '[0-9][0-9][0-9]'] },
  'gpt-2': gpt2,
  olmo: gpt2,
  'phi-2': gpt2,
  mpt: gpt2,
  jais: gpt2,
  'roberta-bpe': gpt2,
  'modern-bert': { ...gpt2, composes: true },
  mellum: gpt2,
  'a.x-4.0': gpt2,
  gigachat: gpt2,
  trillion: gpt2,
  exaone4: gpt2,
  smollm: singleDigits,
  starcoder: singleDigits,
  refact: singleDigits,
  'command-r': singleDigits,
  codeshell: singleDigits,
  exaone: singleDigits,
  minerva: singleDigits,
  'minerva-7b': singleDigits,
  'llama-bpe': llama3,
  llama3,
  'llama-v3': llama3,
  falcon3: llama3,
  'falcon-h1': llama3,
  pixtral: llama3,
  'midm-2.0': llama3,
  lfm2: llama3,
  dbrx: cl100k,
  'smaug-bpe': cl100k,
  'chatglm-bpe': cl100k,
  glm4: cl100k,
  qwen2,
  qwen35: { ...qwen2, cuts: [MARKED] },
  'deepseek-r1-qwen': qwen2,
  kormo: qwen2,
  megrez: qwen2,
  hunyuan: qwen2,
  stablelm2: { ...qwen2, composes: false },
  'gpt-4o': o200k,
  kanana2: o200k,
  'minimax-m2': o200k,
  llama4: { ...o200k, ignoresMerges: true, addsBos: true },
  tekken: { cuts: [gpt4o('', '')], ignoresMerges: true, addsBos: true },
  'seed-coder': {
    cuts: [`${ENDINGS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|${SPACES}`],
  },
  'kimi-k2': {
    cuts: [
      `\\p{Han}+|${casedWords(`${ENDINGS}?`, '&&[^\\p{Han}]')}|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${SPACES}`,
    ],
    ignoresMerges: true,
  },
  'deepseek-llm': {
    cuts: [
      '[\\r\\n]',
      `\\s?[${DEEPSEEK_LETTERS}]+`,
      '\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+',
      '\\s+$',
      DEEPSEEK_CHARACTERS,
      '\\p{N}',
    ],
  },
  'deepseek-coder': {
    cuts: ['[\\r\\n]', '\\s?\\p{L}+', '\\s?\\p{P}+', DEEPSEEK_CHARACTERS, '\\p{N}'],
  },
  'deepseek-v3': deepseekV3,
  'hunyuan-dense': deepseekV3,
};

/** @throws ModelLoadError naming one that svc does not know. */
export function findPreTokenizer(path: string, name: string): PreTokenizer {
  if (Object.hasOwn(PRE_TOKENIZERS, name)) return PRE_TOKENIZERS[name]!;
  throw new ModelLoadError(
    `${path}: the tokenizer cuts text as ${preview(name)} (tokenizer.ggml.pre), which svc does not know: give the original's ` +
      'with --tokenizer <its folder, or its name on the hub>',
  );
}
