// Bundles the command and each of its threads into a few files of dist/, packages included: to find and link hundreds of
// small modules takes a third of a start. A program that imports svc reads the modules one by one.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { build } from 'esbuild';

/** Modules that Node starts from: of the command and of its threads. Those of util/ are a part of programs. */
const ENTRY = /^src\/(cli\/main|(?!util\/).*-thread)\.ts$/;
/** They load addons from their own folders. */
const NATIVE_PACKAGES = ['sharp', 'tokenizers', 'zeromq'];
/** Packages of CommonJS ask for modules of Node by it, and bundles are ES modules. */
const REQUIRE =
  "import { createRequire as makeRequire } from 'node:module'; const require = makeRequire(import.meta.url);";

/** Puts bundles in the place of the compiled entries; returns the paths that it wrote. */
export async function bundleCommand() {
  const { metafile } = await build({
    entryPoints: sources().filter((path) => ENTRY.test(path)),
    outdir: 'dist',
    outbase: 'src',
    bundle: true,
    splitting: true,
    chunkNames: 'chunks/[name]-[hash]',
    external: NATIVE_PACKAGES,
    banner: { js: REQUIRE },
    format: 'esm',
    platform: 'node',
    // Packages in UMD ask for their own files by a function that no bundle sees through.
    mainFields: ['module', 'main'],
    target: 'node20',
    sourcemap: true,
    // A tenth of a start; names stay, for stacks.
    minifyWhitespace: true,
    minifySyntax: true,
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

function sources() {
  return readdirSync('src', { recursive: true }).map((path) => join('src', path));
}
