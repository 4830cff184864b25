// Blocks go from one KV memory into another through the native threads, over each kind of link.

import { afterEach, describe, expect, it } from 'vitest';
import { KINDS, range, TransferNode } from '../helpers/transfer-node.ts';

const nodes: TransferNode[] = [];

function node(...args: ConstructorParameters<typeof TransferNode>): TransferNode {
  const made = new TransferNode(...args);
  nodes.push(made);
  return made;
}

afterEach(() => {
  for (const made of nodes.splice(0)) made.close();
});

describe.each(KINDS)('over %s', (kind) => {
  it('brings every piece of a transfer bit for bit into the blocks it is loaded to', async () => {
    const [p, d] = [node(), node()];
    const [from, to] = [range(7, 20).reverse(), range(7, 3)];
    p.fill(from, 1);
    const link = await p.link(kind, d.address(kind));
    d.receive(99n, 7);
    p.engine.openSend(5, 7);
    p.engine.grant(5, link, 99n, 0);
    p.feed(5, 0, from);
    await d.event('received', (event) => event.ticket === 99n);
    await p.event('sent', (event) => event.send === 5);
    expect(await d.load(99n, to)).toBe(true);
    expect(d.read(to)).toEqual(p.read(from));
  });
});
