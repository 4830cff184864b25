// Makes dist/ui/page.html of ui/: one file with its styles and its script, so that a server needs one route for it.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';

const PAGE = 'dist/ui/page.html';

/** Returns the path that it wrote. */
export async function bundlePage() {
  const { outputFiles } = await build({
    entryPoints: ['ui/main.tsx'],
    outdir: 'dist/ui',
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'error',
  });
  const textOf = (ending) => outputFiles.find(({ path }) => path.endsWith(ending)).text;
  const page = readFileSync('ui/page.html', 'utf8')
    .replace('<style></style>', () => `<style>${textOf('.css')}</style>`)
    .replace('<script type="module"></script>', () => `<script type="module">${textOf('.js')}</script>`);
  mkdirSync('dist/ui', { recursive: true });
  writeFileSync(PAGE, page);
  return PAGE;
}
