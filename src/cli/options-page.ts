// The reference page of the options, as Markdown, from the one table. scripts/options-doc.ts writes it to docs/.

import { ENVIRONMENT } from '../config/environment.ts';
import { OPTION_GROUPS, OPTION_KEYS, type OptionKey, optionInfo, optionName } from '../config/options.ts';

const INTRODUCTION = `# Options

Written by \`scripts/options-doc.ts\` from the table in \`src/config/options.ts\`: change it there.

An option can be given as a flag of \`svc serve\`, as a key of the YAML file named by \`--config\` (the same name without
dashes in front), by its environment variable where it has one, and to \`new LLM({ ... })\`
under the name in that column. Flags win over environment variables, these over the file, this over the defaults.

- Dashes and underscores in names are the same: \`--max-num-seqs\`, \`--max_num_seqs\`.
- Sizes may be written short: \`1k\` is 1000, \`1K\` is 1024, \`25.6k\` is 25600; so with \`m\`, \`g\`, \`t\`.
- A JSON option takes one JSON text, or its parts: \`--attention-config.backend CPU_ATTN\`; a part that ends in \`+\` is
  added to a list. Parts and text are merged.
- A flag without a value has an opposite: \`--no-skip-tokenizer-init\`.
- A value whose feature is not there yet is refused with "not available yet", never ignored.
`;

export function optionsPage(): string {
  const groups = OPTION_GROUPS.map((group) => {
    const rows = OPTION_KEYS.filter((key) => optionInfo(key).group === group).map(row);
    return table(group, ['Flag', 'Value', 'Default', 'Environment', '`new LLM`', 'Meaning'], rows);
  });
  const variables = ENVIRONMENT.map(({ name, help }) => [code(name), cellText(help)]);
  return [INTRODUCTION, ...groups, table('Other environment variables', ['Name', 'Meaning'], variables)].join(
    '\n',
  );
}

function row(key: OptionKey): string[] {
  const { kind, aliases = [], env, help, isEngineOption, defaultText, fallback } = optionInfo(key);
  const flags = [`--${optionName(key)}`, ...aliases].map(code).join(', ');
  const plain = fallback === false ? 'off' : code(String(fallback));
  return [
    flags,
    cellText(kind.placeholder === null ? '' : kind.expected),
    defaultText === undefined ? plain : cellText(defaultText),
    env === undefined ? '' : code(env),
    isEngineOption || key === 'model' ? code(key) : '',
    cellText(help),
  ];
}

function table(title: string, head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [`## ${title}`, '', line(head), line(head.map(() => '---')), ...rows.map(line), ''].join('\n');
}

function code(text: string): string {
  return `\`${text}\``;
}

/** Texts of the table are plain; only a bar would end a cell. */
function cellText(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('*', '\\*');
}
