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

/** As GPT-4o: words are cut where lower case becomes upper case, too. */
function gpt4o(digits: string, endings: string): string {
  const [upper, lower] = ['[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]'];
  const word = (letters: string) => `[^\\r\\n\\p{L}\\p{N}]?${letters}${endings}`;
  const words = `${word(`${upper}*${lower}+`)}|${word(`${upper}+${lower}*`)}`;
  return `${words}|\\p{N}${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${SPACES}`;
}

const gpt2: PreTokenizer = { cuts: [], cutsAsGpt2: true };
const singleDigits: PreTokenizer = { cuts: ['\\p{N}'], cutsAsGpt2: true };
const llama3: PreTokenizer = { cuts: [gpt4('{1,3}')], ignoresMerges: true, addsBos: true };
const cl100k: PreTokenizer = { cuts: [gpt4('{1,3}')] };
const qwen2: PreTokenizer = { cuts: [gpt4('')], composes: true };

const PRE_TOKENIZERS: Readonly<Record<string, PreTokenizer>> = {
  // Of files that were made before the names were: what llama.cpp makes of them.
  default: { cuts: ['[\\p{P}\\$\\+<=>\\^~\\|]+', GPT2, '\\p{N}+', '[0-9][0-9][0-9]'] },
  'gpt-2': gpt2,
  olmo: gpt2,
  'phi-2': gpt2,
  mpt: gpt2,
  jais: gpt2,
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
  pixtral: llama3,
  dbrx: cl100k,
  'smaug-bpe': cl100k,
  'chatglm-bpe': cl100k,
  glm4: cl100k,
  qwen2,
  'deepseek-r1-qwen': qwen2,
  stablelm2: { ...qwen2, composes: false },
  'gpt-4o': { cuts: [gpt4o('{1,3}', `${ENDINGS}?`)] },
  llama4: { cuts: [gpt4o('{1,3}', `${ENDINGS}?`)], ignoresMerges: true, addsBos: true },
  tekken: { cuts: [gpt4o('', '')], ignoresMerges: true, addsBos: true },
  'deepseek-v3': {
    cuts: [
      '\\p{N}{1,3}',
      '[一-龥぀-ゟ゠-ヿ]+',
      '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|' +
        SPACES,
    ],
  },
};

/** @throws ModelLoadError naming one that svc does not know. */
export function findPreTokenizer(path: string, name: string): PreTokenizer {
  if (Object.hasOwn(PRE_TOKENIZERS, name)) return PRE_TOKENIZERS[name]!;
  throw new ModelLoadError(
    `${path}: the tokenizer cuts text as ${preview(name)} (tokenizer.ggml.pre), which svc does not know: give the original's ` +
      'with --tokenizer <its folder, or its name on the hub>',
  );
}
