// npm run build: the native addon and dist/. Where dist/ is what the sources make already, this takes a tenth of a second:
// `npm start` and `npm test` build every time. What is left in dist/ of sources that are gone is removed.
//
// The command and each of its threads are bundled into a few files, packages included: to find and link hundreds of small modules
// takes a third of a start. A program that imports svc reads the modules one by one.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

process.chdir(join(dirname(fileURLToPath(import.meta.url)), '..'));
const COMPILER = 'node_modules/typescript/bin/tsc';
const SOURCES = ['src', 'tsconfig.json', 'tsconfig.build.json', 'package-lock.json', 'scripts/build.mjs'];
/** Holds what sources and output looked like after the last build. */
const STAMP = 'dist/.build';
/** Modules that Node starts from: of the command and of its threads. */
const ENTRY = /^src\/(cli\/main|.*-thread)\.ts$/;
/** They load addons from their own folders. */
const NATIVE_PACKAGES = ['tokenizers', 'zeromq'];
/** Packages of CommonJS ask for modules of Node by it, and bundles are ES modules. */
const REQUIRE =
  "import { createRequire as makeRequire } from 'node:module'; const require = makeRequire(import.meta.url);";

run('scripts/build-native.mjs');
if (!existsSync(STAMP) || readFileSync(STAMP, 'utf8') !== fingerprint()) {
  if (existsSync(COMPILER)) await compile();
  else giveUp();
}

async function compile() {
  rmSync(STAMP, { force: true });
  const written = run(COMPILER, '-p', 'tsconfig.build.json', '--listEmittedFiles');
  const kept = new Set([...written.matchAll(/^TSFILE: (.*)$/gm)].map(([, path]) => relative('.', path)));
  // What the compiler leaves out: modules that start a thread or a process, and pages.
  for (const asset of filesOf('src').filter((path) => /\.(mjs|html)$/.test(path))) {
    const path = join('dist', relative('src', asset));
    cpSync(asset, path);
    kept.add(path);
  }
  for (const path of await bundle()) kept.add(path);
  for (const path of filesOf('dist')) if (!kept.has(path)) rmSync(path);
  writeFileSync(STAMP, fingerprint());
}

/** Puts bundles in the place of the compiled entries; returns the paths that it wrote. */
async function bundle() {
  const { build } = await import('esbuild');
  const { metafile } = await build({
    entryPoints: filesOf('src').filter((path) => ENTRY.test(path)),
    outdir: 'dist',
    outbase: 'src',
    bundle: true,
    splitting: true,
    chunkNames: 'chunks/[name]-[hash]',
    external: NATIVE_PACKAGES,
    banner: { js: REQUIRE },
    format: 'esm',
    platform: 'node',
    target: 'node20',
    sourcemap: true,
    metafile: true,
    logLevel: 'error',
    plugins: [
      { name: 'urls', setup: keepUrls },
      { name: 'packages on demand', setup: leaveOnDemand },
    ],
  });
  return Object.keys(metafile.outputs);
}

/** `import.meta.url` of a module stays the URL of its own file, so that it finds what is beside it: each bundle is in a folder of dist/. */
function keepUrls({ onLoad }) {
  onLoad({ filter: /\.ts$/ }, ({ path }) => {
    const own = relative('src', path).replace(/\.ts$/, '.js');
    const url = `new URL(${JSON.stringify(`../${own}`)}, import.meta.url).href`;
    return { contents: readFileSync(path, 'utf8').replaceAll('import.meta.url', url), loader: 'ts' };
  });
}

/** A package that is imported on demand stays in its own files: in a bundle one of CommonJS has no named exports. */
function leaveOnDemand({ onResolve }) {
  onResolve({ filter: /^[^.]/ }, ({ path, kind }) =>
    kind === 'dynamic-import' ? { path, external: true } : null,
  );
}

/** Of every source and every file of dist/: path, size and time of the last change. */
function fingerprint() {
  const hash = createHash('sha256');
  for (const path of [...SOURCES, 'dist'].flatMap(filesOf)) {
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
