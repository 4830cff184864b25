// Builds the native addon where there is a compiler; run by `npm install` and `npm run build`. Silent when nothing is
// to do. Without make or g++ it says so in one line and succeeds: the TypeScript reference backend serves then.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const native = join(dirname(fileURLToPath(import.meta.url)), '..', 'native');
const compiler = process.env.CXX ?? 'g++';

const missing = ['make', compiler].filter((tool) => !runs(tool));
if (process.platform !== 'linux') skip('the native backend needs Linux');
else if (missing.length > 0) skip(`${missing.join(' and ')} not found`);
else build();

function runs(tool) {
  return spawnSync(tool, ['--version'], { stdio: 'ignore' }).error === undefined;
}

function skip(reason) {
  console.error(
    `svc: native backend not built (${reason}): the slower TypeScript reference backend will serve`,
  );
}

function build() {
  const modules = modulesFolder();
  // An install must not fail on a warning that a compiler of tomorrow invents; a developer's build should.
  const werror = process.env.npm_lifecycle_event === 'install' ? '' : '-Werror';
  const args = ['--silent', '-C', native, `-j${Math.max(2, availableParallelism())}`];
  const made = spawnSync('make', [...args, `CXX=${compiler}`, `MODULES=${modules}`, `WERROR=${werror}`], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (made.status === 0) return;
  console.error(
    `${made.stdout}${made.stderr}svc: building the native backend failed (make exited ${made.status})`,
  );
  process.exitCode = 1;
}

/** The header packages lie beside the package when it is a dependency of another one. */
function modulesFolder() {
  const own = join(native, '..', 'node_modules');
  return existsSync(join(own, 'node-addon-api')) ? own : join(native, '..', '..');
}
