// The reference pages of the options, as Markdown, one a table.

import { FOREIGN_VARIABLES } from '../src/config/foreign-environment.ts';
import { FOREIGN_OPTIONS, type ForeignOption } from '../src/config/foreign-options.ts';
import { type OptionInfo, type OptionNames, optionName } from '../src/config/option-table.ts';
import { SERVE_OPTIONS } from '../src/config/options.ts';
import { PROXY_OPTIONS } from '../src/config/proxy-options.ts';

/** Read where they matter: they are no options. */
const ENVIRONMENT: readonly { readonly name: string; readonly help: string }[] = [
  { name: 'SVC_USE_ALT_MODEL_HUB', help: 'true: download models from the alternative hub' },
  { name: 'SVC_ALT_MODEL_HUB_ENDPOINT', help: 'address of the alternative hub, for mirrors' },
  {
    name: 'MODELSCOPE_ENDPOINT',
    help: 'the same, as its own tools read it; MODELSCOPE_DOMAIN is the address without https://',
  },
  {
    name: 'MODELSCOPE_CACHE',
    help: 'folder of models from the alternative hub; default ~/.cache/modelscope',
  },
  { name: 'MODELSCOPE_API_TOKEN', help: 'token for private models of the alternative hub' },
  { name: 'MODELSCOPE_HOME', help: "folder with the token of its own tools' login; default ~/.modelscope" },
  {
    name: 'SVC_SERVER_DEV_MODE',
    help: '1: adds routes for operators and tests, such as POST /reset_prefix_cache',
  },
  {
    name: 'SVC_ALLOW_RUNTIME_LORA_UPDATING',
    help: '1: adds POST /v1/load_lora_adapter and /v1/unload_lora_adapter, by which clients load folders of the server',
  },
  {
    name: 'SVC_HOST_IP',
    help: 'address that instances with --kv-transfer-config listen on and tell each other where kv_ip is not given; default 127.0.0.1',
  },
  {
    name: 'SVC_NATIVE_ADDON',
    help: 'file of another build of the native addon, such as one with sanitizers; where it cannot be used nothing starts, but for --device reference',
  },
  { name: 'HF_HOME', help: 'folder of downloaded models and of the token; default ~/.cache/huggingface' },
  { name: 'HF_HUB_CACHE', help: 'folder of downloaded models; default $HF_HOME/hub' },
  { name: 'HF_ENDPOINT', help: 'address of the hub, for mirrors: https://hub.example' },
  { name: 'HF_TOKEN', help: 'token for gated and private models' },
  { name: 'HF_TOKEN_PATH', help: 'file with the token of a login; default $HF_HOME/token' },
  { name: 'HF_HUB_OFFLINE', help: '1: use only what is already downloaded, from either hub' },
  {
    name: 'HF_HUB_DOWNLOAD_TIMEOUT',
    help: 'seconds without a byte after which a download goes on by another connection; default 30',
  },
  { name: 'HTTPS_PROXY', help: 'web proxy for downloads, such as http://proxy:3128; default $HTTP_PROXY' },
  { name: 'HTTP_PROXY', help: 'the same for addresses that begin with http://' },
  { name: 'NO_PROXY', help: 'hosts that are reached without it, separated by commas' },
  { name: 'XDG_CACHE_HOME', help: 'folder of caches where HF_HOME is not set; default ~/.cache' },
];

const INTRODUCTION = `# Options

Written by \`scripts/options-doc.ts\` from the table in \`src/config/options.ts\`: change it there.

An option can be given as a flag of \`svc serve\`, as a key of the YAML file named by \`--config\` (the same name without
dashes in front), by its environment variable where it has one, and to \`new LLM({ ... })\`
under the name in that column. Flags win over environment variables, these over the file, this over the defaults.

- Dashes and underscores in names are the same: \`--max-num-seqs\`, \`--max_num_seqs\`.
- Sizes may be written short: \`1k\` is 1000, \`1K\` is 1024, \`25.6k\` is 25600; so with \`m\`, \`g\`, \`t\`.
- A JSON option takes one JSON text, or its parts: \`--attention-config.backend CPU_ATTN\`; a part that ends in \`+\` is
  added to a list. Parts and text are merged.
- A variable of the environment that is on or off takes 1 or 0, true or false, yes or no, on or off; anything else is refused.
  One that begins with \`SVC_\` and is nearly one of svc is told of in a line of the log.
- A flag without a value has an opposite: \`--no-skip-tokenizer-init\`.
- A value whose feature is not there yet is refused with "not available yet", never ignored.
`;

const PROXY_INTRODUCTION = `# Options of svc proxy

Written by \`scripts/options-doc.ts\` from the table in \`src/config/proxy-options.ts\`: change it there.

An option can be given as a flag, as a key of the YAML file named by \`--config\` (the same name without dashes in front) or by
its environment variable where it has one. Flags win over environment variables, these over the file, this over the
defaults. Dashes and underscores in names are the same.

Clients show one of the \`--api-key\` keys; the proxy then calls the instances with the key in the environment variable
\`OPENAI_API_KEY\` where there is one. Without keys of its own it hands on what the client shows.
`;

export function optionsPage(): string {
  const isLlmOption = (key: string, info: OptionInfo): string =>
    info.isEngineOption || key === 'model' ? code(key) : '';
  const groups = tables(SERVE_OPTIONS, [['`new LLM`', isLlmOption]]);
  const variables = ENVIRONMENT.map(({ name, help }) => [code(name), cellText(help)]);
  return [
    INTRODUCTION,
    ...groups,
    table('Other environment variables', ['Name', 'Meaning'], variables),
    FOREIGN_INTRODUCTION,
    rows(['Flag', 'What happens', 'Reason'], FOREIGN_OPTIONS.map(foreignRow)),
    '',
    FOREIGN_VARIABLES_INTRODUCTION,
    rows(
      ['Name', 'Reason'],
      [...FOREIGN_VARIABLES].map(([name, reason]) => [code(name), cellText(reason)]),
    ),
    '',
  ].join('\n');
}

const FOREIGN_INTRODUCTION = `## Options of other servers

\`svc serve\` knows these by name, on the command line and in the config file. What asks for nothing here is accepted with a
line in the log; what would matter is refused with the reason, and that such a flag is off is always accepted.
`;

const FOREIGN_VARIABLES_INTRODUCTION = `## Environment variables of other servers

These have no effect; where one is set, a line in the log says why.
`;

function foreignRow({ flags, accepts, reason, instead }: ForeignOption): string[] {
  const but = accepts === 'anything' ? [] : accepts.filter((value) => value !== 'false');
  const refusal = but.length === 0 ? 'refused' : `refused, but for ${but.map(code).join(', ')}`;
  const happens = accepts === 'anything' ? 'accepted, no effect' : refusal;
  return [flags.map(code).join(', '), happens, cellText(instead === '' ? reason : `${reason}; ${instead}`)];
}

export function proxyOptionsPage(): string {
  return [PROXY_INTRODUCTION, ...tables(PROXY_OPTIONS, [])].join('\n');
}

/** A column of one page only: its head, and what it says of an option. */
type Column = readonly [head: string, cell: (key: string, info: OptionInfo) => string];

function tables<K extends string>(options: OptionNames<K>, extra: readonly Column[]): string[] {
  const head = ['Flag', 'Value', 'Default', 'Environment', ...extra.map(([name]) => name), 'Meaning'];
  return options.groups.map((group) => {
    const keys = options.keys.filter((key) => options.info(key).group === group);
    return table(
      group,
      head,
      keys.map((key) => row(key, options.info(key), extra)),
    );
  });
}

function row(key: string, info: OptionInfo, extra: readonly Column[]): string[] {
  const { kind, aliases = [], env, help, defaultText, fallback } = info;
  const flags = [`--${optionName(key)}`, ...aliases].map(code).join(', ');
  const plain = fallback === false ? 'off' : code(String(fallback));
  return [
    flags,
    cellText(kind.placeholder === null ? '' : kind.expected),
    defaultText === undefined ? plain : cellText(defaultText),
    env === undefined ? '' : code(env),
    ...extra.map(([, cell]) => cell(key, info)),
    cellText(help),
  ];
}

function table(title: string, head: readonly string[], cells: readonly (readonly string[])[]): string {
  return [`## ${title}`, '', rows(head, cells), ''].join('\n');
}

function rows(head: readonly string[], cells: readonly (readonly string[])[]): string {
  const line = (row: readonly string[]) => `| ${row.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...cells.map(line)].join('\n');
}

function code(text: string): string {
  return `\`${text}\``;
}

/** Texts of the table are plain; only a bar would end a cell. */
function cellText(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('*', '\\*');
}
