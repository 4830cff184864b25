// The tokenizer of the tiny models: byte-level BPE as published models have it, with a handful of merges.

/** Ids 0 to 4. A role's token opens its turn, `</s>` closes it. */
const SPECIAL_TOKENS = ['<s>', '</s>', '<|system|>', '<|user|>', '<|assistant|>'] as const;

export const TINY_BOS_ID = 0;
export const TINY_EOS_ID = 1;

/** Ġ stands for the space, as byte-level BPE writes it. */
const MERGES =
  'Ġ t|Ġ a|h e|i n|r e|o n|Ġt he|e r|Ġ s|Ġ w|a t|n d|Ġ o|i t|e s|o r|i s|Ġ b|Ġ f|e n|Ġ c|in g|Ġ p|e d|a n|Ġ m|a l|' +
  'Ġ d|o u|a r|Ġ h|Ġt o|Ġa nd|Ġo f|l l|i c|Ġ l|Ġ in|a s|l e|i on|Ġ g|Ġ n|v e|Ġ e|r o|Ġb e|Ġ y|h i|Ġh e|o t|u t|' +
  'l o|Ġy ou|Ġw as|H e|ll o|s t|He llo';

const CHAT_TEMPLATE = `{{ bos_token }}{% for message in messages %}{% if message['role'] not in ['system', 'user', 'assistant'] %}{{ raise_exception('role must be system, user or assistant, got ' + message['role']) }}{% endif %}<|{{ message['role'] }}|>{{ message['content'] }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`;

/** Ids in the vocabulary. */
export const TINY_VOCAB_SIZE = SPECIAL_TOKENS.length + 256 + MERGES.split('|').length;

/** The content of tokenizer.json. */
export function tinyTokenizer(): object {
  const merges = MERGES.split('|');
  const pieces = [...SPECIAL_TOKENS, ...byteSymbols(), ...merges.map((merge) => merge.replace(' ', ''))];
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  const bos = { SpecialToken: { id: '<s>', type_id: 0 } };
  const sequence = (id: string) => ({ Sequence: { id, type_id: 0 } });
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: SPECIAL_TOKENS.map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: {
      type: 'TemplateProcessing',
      single: [bos, sequence('A')],
      pair: [bos, sequence('A'), sequence('B')],
      special_tokens: { '<s>': { id: '<s>', ids: [TINY_BOS_ID], tokens: ['<s>'] } },
    },
    decoder: byteLevel,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])),
      merges,
    },
  };
}

/** The content of tokenizer_config.json. */
export function tinyTokenizerConfig(modelMaxLength: number): object {
  return {
    tokenizer_class: 'PreTrainedTokenizerFast',
    bos_token: '<s>',
    eos_token: '</s>',
    model_max_length: modelMaxLength,
    clean_up_tokenization_spaces: false,
    chat_template: CHAT_TEMPLATE,
  };
}

/** The printable character that stands for each byte in a byte-level vocabulary. */
function byteSymbols(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const isPrintable =
      (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
    return String.fromCodePoint(isPrintable ? byte : next++);
  });
}
