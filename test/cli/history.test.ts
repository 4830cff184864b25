import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { History } from '../../src/cli/chat/history.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

function stateHome() {
  const folder = newFolder();
  const path = join(folder, 'svc', 'chat-history');
  return { path, open: () => new History('chat-history', { XDG_STATE_HOME: folder }) };
}

describe('the history of typed messages', () => {
  it('is there in the next run, newest first, breaks included', () => {
    const { open } = stateHome();
    const first = open();
    for (const entry of ['one', 'two\nlines', 'two\nlines']) first.add(entry);
    expect(open().newestFirst).toEqual(['two\nlines', 'one']);
    expect(first.problem).toBeNull();
  });

  it('is in a file that only its owner can read, even where it was open before', () => {
    const { open, path } = stateHome();
    open().add('one');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    chmodSync(path, 0o644);
    open();
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it('keeps the last thousand', () => {
    const { open, path } = stateHome();
    const history = open();
    for (let i = 0; i < 1200; i++) history.add(`message ${i}`);
    expect(history.newestFirst).toHaveLength(1000);
    expect(open().newestFirst).toHaveLength(1000);
    expect(open().newestFirst[0]).toBe('message 1199');
    expect(readFileSync(path, 'utf8').split('\n')).toHaveLength(1001);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it('keeps what two chats at a time add', () => {
    const { open } = stateHome();
    const [one, other] = [open(), open()];
    one.add('of one');
    other.add('of the other');
    expect(open().newestFirst).toEqual(['of the other', 'of one']);
  });

  it('passes over lines that are broken', () => {
    const { open, path } = stateHome();
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, '"one"\n"tw\n3\n"four"\n');
    expect(open().newestFirst).toEqual(['four', 'one']);
  });

  it('says why it is not kept and goes on', () => {
    const folder = newFolder();
    writeFileSync(folder, 'a file where a folder should be');
    const history = new History('chat-history', { XDG_STATE_HOME: folder });
    history.add('one');
    expect(history.problem).toMatch(/^what you type is not kept: .*(ENOTDIR|EEXIST)/);
    expect(history.newestFirst).toEqual(['one']);
  });
});
