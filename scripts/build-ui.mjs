// Makes dist/ui/page.html of ui/: one file with its styles and its script, so that a server needs one route for it.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { build } from 'vite';

const { output } = await build({
  root: 'ui',
  configFile: false,
  logLevel: 'warn',
  build: { write: false, rollupOptions: { input: 'ui/main.tsx' } },
});
const script = output.find(({ fileName }) => fileName.endsWith('.js')).code;
const style = output.find(({ fileName }) => fileName.endsWith('.css')).source;
// A script ends at the first `</script`, wherever it is.
const page = readFileSync('ui/page.html', 'utf8')
  .replace('<style></style>', () => `<style>${style}</style>`)
  .replace(
    '<script type="module"></script>',
    () => `<script type="module">${script.replaceAll('</script', '<\\/script')}</script>`,
  );
mkdirSync('dist/ui', { recursive: true });
writeFileSync('dist/ui/page.html', page);
