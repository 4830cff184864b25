// Puts the files that the compiler leaves out beside its output.
import { cpSync } from 'node:fs';

cpSync('src/engine/engine-boot.mjs', 'dist/engine/engine-boot.mjs');
cpSync('src/tokenizer/render-boot.mjs', 'dist/tokenizer/render-boot.mjs');
cpSync('src/proxy/page.html', 'dist/proxy/page.html');
cpSync('src/tokenizer/probe-process.mjs', 'dist/tokenizer/probe-process.mjs');
