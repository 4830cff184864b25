// Builds the native addon where there is a compiler; run by `npm install` and `npm run build`. Says how far it is, and
// nothing where nothing is to do. Without make or g++ it says so in one line and succeeds: the TypeScript reference
// backend serves then.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { buildCuda, hasCompiler, hasGpu } from './build-cuda.mjs';

const native = join(dirname(fileURLToPath(import.meta.url)), '..', 'native');
const compiler = process.env.CXX ?? 'g++';
/** npm scripts of people who use svc: these must not fail on a warning that a compiler of tomorrow invents. */
const USES = ['install', 'prepare', 'prepack', 'start'];
/** What the Makefile says when it begins with a source. */
const COMPILING = /^(echo )?compiling /;

const missing = ['make', compiler].filter((tool) => !runs(tool));
if (process.platform !== 'linux') skip('the native backend needs Linux');
else if (missing.length > 0) skip(`${missing.join(' and ')} not found`);
else await build();

function runs(tool) {
  return spawnSync(tool, ['--version'], { stdio: 'ignore' }).error === undefined;
}

function skip(reason) {
  console.error(
    `svc: native backend not built (${reason}): the slower TypeScript reference backend will serve`,
  );
}

async function build() {
  const werror = USES.includes(process.env.npm_lifecycle_event) ? '' : '-Werror';
  const args = ['--silent', '-C', native, `-j${Math.max(2, availableParallelism())}`];
  args.push(`CXX=${compiler}`, `MODULES=${modulesFolder()}`, `WERROR=${werror}`);
  const plan = spawnSync('make', ['--dry-run', ...args], { encoding: 'utf8' }).stdout.split('\n');
  const progress = startProgress(plan.filter((line) => COMPILING.test(line)).length);
  const make = spawn('make', args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(make, 'close');
  const messages = [];
  const keep = (line) => (COMPILING.test(line) ? progress.advance() : messages.push(`${line}\n`));
  for (const input of [make.stdout, make.stderr]) createInterface({ input }).on('line', keep);
  const [code] = await ended;
  progress.stop(code === 0);
  if (code === 0) return buildKernels();
  console.error(`${messages.join('')}svc: building the native backend failed (make exited ${code})`);
  process.exitCode = 1;
}

/** Only a machine with a GPU needs them; without them, `--device cuda` says what is missing. */
async function buildKernels() {
  if (!hasGpu() || !hasCompiler()) return;
  await buildCuda().catch((error) => console.error(error.message));
}

/** The header packages lie beside the package when it is a dependency of another one. */
function modulesFolder() {
  const own = join(native, '..', 'node_modules');
  return existsSync(join(own, 'node-addon-api')) ? own : join(native, '..', '..');
}

/** A counter on a terminal, elsewhere one line before and one after. */
function startProgress(total) {
  if (total === 0) return { advance() {}, stop() {} };
  const begin = performance.now();
  const { stderr } = process;
  const title = 'svc: compiling the native backend';
  let numStarted = 0;
  if (!stderr.isTTY) stderr.write(`${title}, ${total} files: a minute or two on a small machine\n`);
  return {
    advance() {
      numStarted++;
      if (stderr.isTTY) stderr.write(`\r${title}: ${numStarted} of ${total}`);
    },
    stop(isBuilt) {
      if (stderr.isTTY) stderr.write('\r\x1b[K');
      const seconds = ((performance.now() - begin) / 1000).toFixed(0);
      if (isBuilt) stderr.write(`svc: native backend built in ${seconds} s\n`);
    },
  };
}
