import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { SVC_COMMAND } from '../helpers/svc-command.ts';
import { freePort, type SvcProcess, spawnSvc, waitUntilReady } from '../helpers/svc-process.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { KEYS, noTerminal, type TerminalOptions, TerminalProcess } from '../helpers/terminal-process.ts';

const { enter, ctrlC, ctrlD, up, altEnter, paste } = KEYS;
const newFolder = temporaryFolders();

/** The slow backend: answers last long enough to be broken off. What it says is always the same. */
async function startServer(port: number): Promise<SvcProcess> {
  const flags = ['--device', 'reference', '--override-generation-config', '{"temperature": 0}'];
  const address = ['--host', '127.0.0.1', '--port', String(port)];
  const svc = spawnSvc(['serve', model, '--served-model-name', 'tiny', ...flags, ...address], port);
  await waitUntilReady(svc);
  return svc;
}

let model: string;
let server: SvcProcess;
beforeAll(async () => {
  model = newFolder();
  writeTinyModel(model, { seed: 3, config: { max_position_embeddings: 8192 } });
  server = await startServer(await freePort());
});
afterAll(() => server?.stop());

const terminals: TerminalProcess[] = [];
afterEach(() => {
  for (const { child } of terminals.splice(0)) child.kill('SIGKILL');
});

function open(args: readonly string[], options: TerminalOptions = {}): TerminalProcess {
  const env = { XDG_STATE_HOME: newFolder(), NO_COLOR: '1', ...options.env };
  const terminal = new TerminalProcess([...SVC_COMMAND, ...args], { ...options, env });
  terminals.push(terminal);
  return terminal;
}

/** A chat that has shown its first prompt. */
async function chat(options: TerminalOptions = {}, url = server.url): Promise<TerminalProcess> {
  const terminal = open(['chat', '--url', `${url}/v1`], options);
  await terminal.says(/Ctrl-D ends\.\s+> /);
  return terminal;
}

const PROMPT = /\n> /;

/** Types commands and waits for their prompts. */
async function command(terminal: TerminalProcess, ...lines: readonly string[]): Promise<void> {
  for (const line of lines) {
    terminal.type(line, enter);
    await terminal.says(PROMPT);
  }
}

describe.skipIf(noTerminal)('svc chat on a terminal', () => {
  it('stops an answer at Ctrl-C, keeps what came and takes the next message', async () => {
    const terminal = await chat();
    await command(terminal, '/set min_tokens 4000');
    terminal.type('Hello', enter);
    await terminal.says(/Hello\n\S+/);
    terminal.type(ctrlC);
    await terminal.says(/\(stopped\)/);
    await terminal.says(PROMPT);
    await command(terminal, '/set min_tokens 0', '/set max_tokens 3');
    const file = join(newFolder(), '..', 'stopped.json');
    await command(terminal, `/save ${file}`);
    const { messages } = JSON.parse(readFileSync(file, 'utf8'));
    expect(messages).toMatchObject([{ role: 'user', content: 'Hello' }, { role: 'assistant' }]);
    terminal.type('Again', enter);
    await terminal.says(/Again\n[\s\S]*\(cut off/);
    terminal.type(ctrlD);
    expect(await terminal.exitCode).toBe(0);
  });

  it('says at Ctrl-C how to leave, and leaves at the second', async () => {
    const terminal = await chat();
    terminal.type('half a mess', ctrlC);
    await terminal.says(/half a mess\S*\^C\n/);
    await terminal.says(/> /);
    terminal.type(ctrlC);
    await terminal.says(/Ctrl-C once more ends, and so does Ctrl-D\./);
    await terminal.says(/> /);
    terminal.type(ctrlC);
    expect(await terminal.exitCode).toBe(0);
  });

  it('shows nothing of what is typed during an answer and keeps it for the next prompt', async () => {
    const terminal = await chat();
    await command(terminal, '/set max_tokens 60', '/set min_tokens 60');
    terminal.type('Hello', enter);
    await terminal.says(/Hello\n\S+/);
    terminal.type('qqqqqq');
    const [answer = ''] = await terminal.says(/^[\s\S]*?\n> /);
    expect(answer).not.toContain('qqqqqq');
    await terminal.says(/q.*q.*q.*q.*q.*q/);
  });

  it('gives the terminal back as it was when it ends', async () => {
    const ends = [ctrlD, `/exit${enter}`, ctrlC + ctrlC];
    const outputs = ends.map(async (end) => {
      const terminal = open(['chat', '--url', `${server.url}/v1`], { after: 'stty -a' });
      await terminal.says(/Ctrl-D ends\.\s+> /);
      terminal.type(end);
      expect(await terminal.exitCode).toBe(0);
      return terminal.output;
    });
    for (const output of await Promise.all(outputs)) {
      expect(output).toMatch(/ icanon [\s\S]* echo /);
      expect(output.match(/\[\?2004[hl]/g)?.at(-1)).toBe('[?2004l');
    }
  });

  it('takes a pasted text of several lines, three quotes and a backslash as one message each', async () => {
    const terminal = await chat();
    await command(terminal, '/set max_tokens 2');
    terminal.type(paste('one\ntwo\n'), ' more', enter);
    await terminal.says(PROMPT);
    terminal.type('"""', enter);
    await terminal.says(/\.\.\. /);
    terminal.type('three', enter, 'four"""', enter);
    await terminal.says(PROMPT);
    terminal.type('five\\', enter, 'six', altEnter, 'seven', enter);
    await terminal.says(PROMPT);
    const file = join(newFolder(), '..', 'lines.json');
    await command(terminal, `/save ${file}`);
    const { messages } = JSON.parse(readFileSync(file, 'utf8'));
    const users = messages.filter(({ role }: { role: string }) => role === 'user');
    expect(users.map(({ content }: { content: string }) => content)).toEqual([
      'one\ntwo more',
      'three\nfour',
      'five\nsix\nseven',
    ]);
  });

  it('has what was typed in an earlier run', async () => {
    const env = { XDG_STATE_HOME: newFolder() };
    const first = await chat({ env });
    await command(first, '/set seed 17');
    first.type(ctrlD);
    await first.exitCode;
    const second = await chat({ env });
    second.type(up);
    await second.says(/> .*\/set seed 17/);
  });

  it('breaks answers between words, in colour only where that is wanted', async () => {
    const terminal = await chat({ columns: 30, env: { NO_COLOR: '1' } });
    expect(terminal.output).not.toMatch(/\[[\d;]+m/);
    terminal.type('/help', enter);
    await terminal.says(/Ctrl-D\s+leave/);
    for (const line of terminal.text.split('\n')) expect(line.length).toBeLessThanOrEqual(30);
    // Node takes a terminal of a CI for one without colours.
    const coloured = await chat({ env: { CI: undefined, NO_COLOR: undefined, FORCE_COLOR: undefined } });
    expect(coloured.output).toMatch(/\[1m> /);
  });

  it('goes on when the server dies in an answer, with the same conversation once it is back', async () => {
    const port = await freePort();
    const mortal = await startServer(port);
    const terminal = await chat({}, mortal.url);
    await command(terminal, '/set max_tokens 3');
    terminal.type('First', enter);
    await terminal.says(PROMPT);
    await command(terminal, '/set max_tokens 4000', '/set min_tokens 4000');
    terminal.type('Hello', enter);
    await terminal.says(/Hello\n\S+/);
    const ended = once(mortal.child, 'exit');
    mortal.child.kill('SIGKILL');
    await terminal.says(/\nerror: the connection to http:\S+ broke\s+off\s+before/);
    // Its port is the last that a process lets go.
    await ended;
    await terminal.says(PROMPT);
    terminal.type('Are you there?', enter);
    await terminal.says(/\nerror: nothing\s+answers\s+at\s+http:\S+\s+start\s+a\s+server/);
    await terminal.says(PROMPT);
    expect(terminal.output).not.toMatch(/\n {4}at /);
    const again = await startServer(port);
    await command(terminal, '/set min_tokens 0', '/set max_tokens 3');
    terminal.type('Hello again', enter);
    await terminal.says(/Hello again\n[\s\S]*\(cut off/);
    await terminal.says(PROMPT);
    const file = join(newFolder(), '..', 'died.json');
    await command(terminal, `/save ${file}`);
    await again.stop();
    const { messages } = JSON.parse(readFileSync(file, 'utf8'));
    expect(messages).toHaveLength(4);
    expect(messages[2].content).toBe('Hello again');
  });
});

describe.skipIf(noTerminal)('svc complete on a terminal', () => {
  it('stops an answer at Ctrl-C and asks again', async () => {
    const terminal = open(['complete', '--url', `${server.url}/v1`, '--max-tokens', '4000']);
    await terminal.says(/Ctrl-D ends\.\s+> /);
    terminal.type('/Once', enter);
    await terminal.says(/Once\n\S+/);
    terminal.type(ctrlC);
    await terminal.says(/\(stopped\)/);
    await terminal.says(PROMPT);
    terminal.type(ctrlD);
    expect(await terminal.exitCode).toBe(0);
  });
});
