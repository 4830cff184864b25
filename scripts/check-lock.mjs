// Fails when package-lock.json lacks a platform package that some dependency lists: `npm ci` would stop there.
// Also fails on download addresses, which differ from machine to machine.
import { readFileSync } from 'node:fs';

const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'));
const names = new Set(Object.keys(packages).map((path) => path.replace(/^.*node_modules\//, '')));
const faults = [];
for (const [path, entry] of Object.entries(packages)) {
  for (const name of Object.keys(entry.optionalDependencies ?? {})) {
    if (!names.has(name)) faults.push(`${path || 'package.json'} wants ${name}, which has no entry`);
  }
  if (entry.resolved?.startsWith('http')) faults.push(`${path} carries a download address`);
}
if (faults.length > 0) {
  console.error(`package-lock.json:\n  ${faults.join('\n  ')}`);
  process.exit(1);
}
