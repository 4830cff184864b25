// npm run test:asan: builds the addon with the address and undefined-behaviour sanitizers in a folder of its own and
// runs the tests of ops and native KV transfer on it. Any finding ends the process that runs the test.
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const addon = join(root, 'native', 'build', 'asan', 'svc.node');

run('make', ['--silent', '-C', 'native', '-j2', 'SANITIZE=1', 'WERROR=-Werror']);
// The C++ library must be there before the sanitizer looks for the function that throws.
const preloaded = ['libasan.so', 'libstdc++.so'].map((name) =>
  spawnSync('g++', [`-print-file-name=${name}`], { encoding: 'utf8' }).stdout.trim(),
);
run(
  process.execPath,
  ['node_modules/vitest/vitest.mjs', 'run', 'test/ops', 'test/kv-transfer/native-', ...process.argv.slice(2)],
  {
    LD_PRELOAD: preloaded.join(' '),
    // node frees little at its end; what it leaves is no finding of ours.
    ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=1',
    UBSAN_OPTIONS: 'print_stacktrace=1',
    SVC_NATIVE_ADDON: addon,
  },
);

function run(command, args, env = {}) {
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  });
  if (error) console.error(`${command}: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
}
