import { describe, expect, it } from 'vitest';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { FakeHub } from '../helpers/fake-hub.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { KEYS, noTerminal, TerminalProcess } from '../helpers/terminal-process.ts';

const newFolder = temporaryFolders();

/** Shows `bar`, says how many listeners Ctrl-C has, and works until it is ended. */
const program = (bar: string) => `
  const { startProgress } = await import('./src/llm/progress.ts');
  const { startLoadProgress } = await import('./src/observability/load-progress.ts');
  const bar = await ${bar};
  setInterval(() => {}, 1000);
  process.stdout.write('\\nlisteners: ' + process.listenerCount('SIGINT') + '\\n');
`;

describe.skipIf(noTerminal)('a progress bar on a terminal', () => {
  it.each([
    ['of a batch', 'startProgress(3, true)'],
    ['of loading', 'startLoadProgress(() => {})'],
  ])('%s leaves cursor, line wrap and Ctrl-C as they are', async (_, bar) => {
    const terminal = new TerminalProcess(['--import', 'tsx', '--input-type=module', '-e', program(bar)], {
      columns: 60,
    });
    await terminal.says(/0%/);
    await terminal.says(/listeners: 0/);
    terminal.type(KEYS.ctrlC);
    expect(await terminal.exitCode).toBe(130);
    expect(terminal.output).not.toMatch(/\[\?(25|7)l/);
    const [line = ''] = /^.*0%.*$/m.exec(terminal.text) ?? [];
    expect(line.length).toBeLessThanOrEqual(60);
  });
});

it.skipIf(noTerminal)(
  'a program on a terminal sees how far its prompts are, and ends after them',
  async () => {
    const folder = newFolder();
    writeTinyModel(folder, { seed: 3 });
    const code = `
    const { LLM } = await import('./src/index.ts');
    const llm = new LLM({ model: ${JSON.stringify(folder)} });
    await llm.generate(['a', 'b'], { max_tokens: 2 });
    await llm.close();
  `;
    const terminal = new TerminalProcess(['--import', 'tsx', '--input-type=module', '-e', code], {
      columns: 120,
    });
    await terminal.says(/100% .* 2\/2 \[input [\d.]+ tok\/s, output [\d.]+ tok\/s\]/);
    expect(await terminal.exitCode).toBe(0);
  },
);

it.skipIf(noTerminal)('a program on a terminal sees how far the download of its model is', async () => {
  const hub = await FakeHub.start({ 'config.json': '{}', 'model.safetensors': Buffer.alloc(100_000) });
  const code =
    "new (await import('./src/index.ts')).LLM({ model: 'org/tiny' }).generate('x').catch(() => {})";
  const terminal = new TerminalProcess(['--import', 'tsx', '--input-type=module', '-e', code], {
    env: { HF_ENDPOINT: hub.url, HF_HOME: newFolder() },
    columns: 100,
  });
  await terminal.says(/of 97\.7 KiB.*downloading org\/tiny/);
  await terminal.exitCode;
  await hub.close();
});
