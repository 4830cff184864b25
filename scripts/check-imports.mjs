// Proves the rows of ARCHITECTURE.md: a file imports its own folder and lower rows, and there are no cycles, of types neither.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const ROWS = {
  cli: 7,
  'index.ts': 7,
  'ai-sdk': 7,
  llm: 6,
  server: 6,
  proxy: 6,
  engine: 5,
  scheduler: 4,
  runner: 4,
  'kv-transfer': 3,
  models: 2,
  'kv-cache': 2,
  speculation: 2,
  ops: 1,
  tokenizer: 1,
  cluster: 1,
  hub: 1,
  images: 1,
  http: 1,
  parsers: 1,
  native: 0,
  sampling: 0,
  'structured-output': 0,
  config: 0,
  observability: 0,
  'errors.ts': 0,
  util: 0,
};
// One file of a row may read these of the same row or above: types that name what passes between the two.
const EXCEPTIONS = new Set(['runner -> scheduler/scheduled-step.ts']);
// Only these may import these: implementations are chosen in one place each.
const GUARDED = [
  { target: /^ops\/(native|reference)\//, importers: /^ops\/(select\.ts|native\/|reference\/)/ },
  {
    target: /^native\//,
    importers: /^(ops\/native\/|ops\/select\.ts|kv-transfer\/p2p\/native-mover\.ts|native\/)/,
  },
  // The proxy finds instances by cluster/; how they exchange KV blocks is theirs.
  { target: /^kv-transfer\//, importers: /^(?!proxy\/)/ },
];
// These import nothing of these though their rows would allow it.
const NEVER = [{ importers: /^scheduler\//, target: /^ops\//, why: 'the scheduler knows integers only' }];
// What is on the wire: zod, its own files, and the schemas that a program's requests share with those of HTTP.
const PROTOCOL = /^server\/protocol\//;
const PROTOCOL_MAY_IMPORT =
  /^(server\/protocol\/|util\/(bounded-schemas|json-schema)\.ts|sampling\/(sampling-fields|structured-outputs|finish-reason)\.ts|parsers\/tool-fields\.ts|tokenizer\/chat-messages\.ts)/;

const files = readdirSync('src', { recursive: true }).filter((name) => name.endsWith('.ts'));
const faults = [];
const graph = new Map();
for (const file of files) {
  const text = readFileSync(join('src', file), 'utf8');
  const targets = [];
  for (const match of text.matchAll(/^(?:import|export)\b[^;]*?from '(\.[^']+)'|import\('(\.[^']+)'\)/gm)) {
    const target = relative('src', join('src', dirname(file), match[1] ?? match[2]));
    targets.push(target);
    check(file, target);
  }
  graph.set(file, targets);
}
findCycles();
if (faults.length > 0) {
  console.error(`imports that go up or sideways:\n  ${faults.join('\n  ')}`);
  process.exit(1);
}

function check(file, target) {
  if (PROTOCOL.test(file) && !PROTOCOL_MAY_IMPORT.test(target))
    faults.push(`${file} -> ${target} (protocol)`);
  const [from] = file.split('/');
  const [to] = target.split('/');
  if (ROWS[from] === undefined) faults.push(`${file}: its folder has no row in scripts/check-imports.mjs`);
  if (from !== to && !(ROWS[to] < ROWS[from]) && !EXCEPTIONS.has(`${from} -> ${target}`)) {
    // Leaves may use each other: errors.ts is everybody's.
    if (!(ROWS[from] === 0 && ROWS[to] === 0)) faults.push(`${file} -> ${target}`);
  }
  for (const never of NEVER) {
    if (never.importers.test(file) && never.target.test(target))
      faults.push(`${file} -> ${target} (${never.why})`);
  }
  for (const guard of GUARDED) {
    if (guard.target.test(target) && !guard.importers.test(file))
      faults.push(`${file} -> ${target} (guarded)`);
  }
}

function findCycles() {
  const state = new Map();
  const visit = (file, path) => {
    if (state.get(file) === 'done') return;
    if (state.get(file) === 'open') {
      faults.push(`cycle: ${[...path.slice(path.indexOf(file)), file].join(' -> ')}`);
      return;
    }
    state.set(file, 'open');
    for (const target of graph.get(file) ?? []) visit(target, [...path, file]);
    state.set(file, 'done');
  };
  for (const file of graph.keys()) visit(file, []);
}
