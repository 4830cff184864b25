// Puts the files that the compiler leaves out beside its output.
import { cpSync } from 'node:fs';

cpSync('src/util/thread-boot.mjs', 'dist/util/thread-boot.mjs');
cpSync('src/proxy/page.html', 'dist/proxy/page.html');
cpSync('src/tokenizer/probe-process.mjs', 'dist/tokenizer/probe-process.mjs');
