// npm run build: the native addon and dist/. Where dist/ is what the sources make already, this takes a tenth of a second:
// `npm start` and `npm test` build every time. What is left in dist/ of sources that are gone is removed.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

process.chdir(join(dirname(fileURLToPath(import.meta.url)), '..'));
const COMPILER = 'node_modules/typescript/bin/tsc';
const SOURCES = [
  'src',
  'ui',
  'tsconfig.json',
  'tsconfig.build.json',
  'package-lock.json',
  'scripts/build.mjs',
  'scripts/bundle-command.mjs',
  'scripts/bundle-page.mjs',
];
/** Holds what sources and output looked like after the last build. */
const STAMP = 'dist/.build';

run('scripts/build-native.mjs');
if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === fingerprint()) {
  // It tells, by its time too, that dist/ is what the sources make.
  utimesSync(STAMP, new Date(), new Date());
} else if (existsSync(COMPILER)) await compile();
else giveUp();

async function compile() {
  rmSync(STAMP, { force: true });
  const written = run(COMPILER, '-p', 'tsconfig.build.json', '--listEmittedFiles');
  const kept = new Set([...written.matchAll(/^TSFILE: (.*)$/gm)].map(([, path]) => relative('.', path)));
  // What the compiler leaves out: modules that start a thread or a process.
  for (const asset of filesOf('src').filter((path) => path.endsWith('.mjs'))) {
    const path = join('dist', relative('src', asset));
    cpSync(asset, path);
    kept.add(path);
  }
  const { bundleCommand } = await import('./bundle-command.mjs');
  const { bundlePage } = await import('./bundle-page.mjs');
  for (const path of [...(await bundleCommand()), await bundlePage()]) kept.add(path);
  for (const path of filesOf('dist')) if (!kept.has(path)) rmSync(path);
  writeFileSync(STAMP, fingerprint());
}

/** Of every source its path and text, for npm and git may write it anew as it was; of every file of dist/ its path, size and time of the last change. */
function fingerprint() {
  const hash = createHash('sha256');
  for (const path of SOURCES.flatMap(filesOf)) {
    const text = readFileSync(path);
    hash.update(`${path} ${text.length}\n`).update(text);
  }
  for (const path of filesOf('dist')) {
    if (path === STAMP) continue;
    const { size, mtimeMs } = statSync(path);
    hash.update(`${path} ${size} ${mtimeMs}\n`);
  }
  return hash.digest('hex');
}

function filesOf(path) {
  if (!existsSync(path)) return [];
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path)
    .sort()
    .flatMap((name) => filesOf(join(path, name)));
}

/** Runs a program of Node to its end and returns what it wrote; where it fails, so does this. */
function run(...args) {
  const { status, stdout } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    stdio: ['inherit', 'pipe', 'inherit'],
  });
  if (status === 0) return stdout;
  process.stderr.write(stdout.replaceAll(/^TSFILE: .*\n/gm, ''));
  process.exit(status ?? 1);
}

/** An install without the development dependencies can serve only what was built before. */
function giveUp() {
  console.error('svc: not built (the TypeScript compiler is missing): npm install --include=dev brings it');
  if (process.env.npm_lifecycle_event !== 'prepare') process.exit(1);
}
