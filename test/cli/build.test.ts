// npm run build on a small package of the same make-up: what it does again, what it leaves, what it removes.

import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let folder: string;
const path = (name: string) => join(folder, name);

function build(): { status: number | null; stderr: string } {
  const env = { ...process.env, npm_lifecycle_event: 'build' };
  return spawnSync(process.execPath, [path('scripts/build.mjs')], { encoding: 'utf8', env });
}

/** Builds and tells which of the files of dist/ are there. */
function built(...names: string[]): boolean[] {
  expect(build()).toMatchObject({ status: 0, stderr: '' });
  return names.map((name) => existsSync(path(`dist/${name}`)));
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-build-'));
  for (const name of [
    'scripts/build.mjs',
    'scripts/build-cuda.mjs',
    'scripts/build-native.mjs',
    'scripts/bundle-command.mjs',
    'scripts/bundle-page.mjs',
    'tsconfig.json',
    'tsconfig.build.json',
  ])
    cpSync(name, path(name));
  mkdirSync(path('native'));
  writeFileSync(path('native/Makefile'), 'nothing-to-do:\n');
  mkdirSync(path('src/part'), { recursive: true });
  writeFileSync(path('package.json'), '{ "type": "module" }');
  writeFileSync(path('src/index.ts'), "export { two } from './part/two.ts';\n");
  writeFileSync(path('src/part/two.ts'), 'export const two = 2;\n');
  writeFileSync(path('src/part/boot.mjs'), 'export {};\n');
  writeFileSync(
    path('src/part/beside.ts'),
    "export const beside = new URL('./boot.mjs', import.meta.url).href;\n",
  );
  for (const entry of ['cli/main', 'thread/some-thread']) {
    mkdirSync(dirname(path(`src/${entry}`)), { recursive: true });
    writeFileSync(
      path(`src/${entry}.ts`),
      "import { beside } from '../part/beside.ts';\nconsole.log(beside);\n",
    );
  }
  mkdirSync(path('ui'));
  writeFileSync(path('ui/page.html'), '<style></style><script type="module"></script>');
  writeFileSync(path('ui/main.tsx'), "import './style.css';\nconsole.log('page');\n");
  writeFileSync(path('ui/style.css'), 'p { color: red }\n');
  symlinkSync(resolve('node_modules'), path('node_modules'));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('npm run build', () => {
  it('compiles the sources, copies modules that are none of the compiler, and does nothing the second time', () => {
    expect(built('index.js', 'part/two.js', 'part/boot.mjs')).toEqual([true, true, true]);
    const { mtimeMs } = statSync(path('dist/index.js'));
    expect(built('index.js')).toEqual([true]);
    expect(statSync(path('dist/index.js')).mtimeMs).toBe(mtimeMs);
  });

  it('does nothing where a source was written anew as it was', () => {
    built();
    const { mtimeMs } = statSync(path('dist/index.js'));
    utimesSync(path('src/index.ts'), new Date(), new Date(Date.now() + 1000));
    built();
    expect(statSync(path('dist/index.js')).mtimeMs).toBe(mtimeMs);
  });

  it('makes one file of the page', () => {
    built();
    const page = readFileSync(path('dist/ui/page.html'), 'utf8');
    expect(page).toMatch(
      /<style>p\{color:red\}\s*<\/style><script type="module">console.log\("page"\);\s*<\/script>/,
    );
  });

  it('removes what is left of a source that was renamed', () => {
    renameSync(path('src/part/two.ts'), path('src/part/pair.ts'));
    writeFileSync(path('src/index.ts'), "export { two } from './part/pair.ts';\n");
    expect(built('part/two.js', 'part/two.d.ts', 'part/pair.js')).toEqual([false, false, true]);
  });

  it('bundles what Node starts from, and its modules find files beside their own', () => {
    const beside = pathToFileURL(path('dist/part/boot.mjs')).href;
    rmSync(path('dist/part/beside.js'));
    for (const entry of ['cli/main', 'thread/some-thread']) {
      const { stdout, stderr } = spawnSync(process.execPath, [path(`dist/${entry}.js`)], {
        encoding: 'utf8',
      });
      expect({ stdout, stderr }).toEqual({ stdout: `${beside}\n`, stderr: '' });
    }
  });

  it('bundles packages whose CommonJS asks for its own parts as no bundler can follow', () => {
    writeFileSync(
      path('src/part/package-thread.ts'),
      "import { parseTree } from 'jsonc-parser';\nconsole.log(parseTree('[2]')?.type);\n",
    );
    built();
    const { stdout, stderr } = spawnSync(process.execPath, [path('dist/part/package-thread.js')], {
      encoding: 'utf8',
    });
    expect({ stdout, stderr }).toEqual({ stdout: 'array\n', stderr: '' });
  });

  it('brings back what is missing of dist/', () => {
    rmSync(path('dist/part/pair.js'));
    expect(built('part/pair.js')).toEqual([true]);
  });

  it('fails with the words of the compiler, also the next time, until the mistake is mended', () => {
    writeFileSync(path('src/wrong.ts'), 'export const wrong: number = "text";\n');
    for (let time = 0; time < 2; time++) {
      const { status, stderr } = build();
      expect(status).toBe(2);
      expect(stderr).toMatch(/^src\/wrong\.ts.*error TS2322/);
      expect(stderr).not.toContain('TSFILE');
    }
    rmSync(path('src/wrong.ts'));
    expect(built('wrong.js')).toEqual([false]);
  });
});
