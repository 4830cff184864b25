// A link between two stages: ops run when they are called, so what is received was sent before.

import { ShapeError } from '../../errors.ts';
import type { StageLink } from '../ops.ts';
import { RefTensor } from './ref-tensor.ts';

export class RefStageLink implements StageLink {
  readonly capacity: number;
  readonly #onTheWay: RefTensor[] = [];

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  send(x: RefTensor): void {
    if (this.#onTheWay.length === this.capacity)
      throw new ShapeError('sendHidden', `at most ${this.capacity} on their way`, 'one more');
    const copy = RefTensor.zeros(x.rows, x.cols, x.dtype);
    for (let row = 0; row < x.rows; row++) copy.data.set(x.row(row), row * x.cols);
    this.#onTheWay.push(copy);
  }

  receive(rows: number, cols: number): RefTensor {
    const oldest = this.#onTheWay.shift();
    if (oldest?.rows !== rows || oldest.cols !== cols) {
      const got = oldest === undefined ? 'nothing' : `${oldest.rows} x ${oldest.cols}`;
      throw new ShapeError('receiveHidden', `${rows} x ${cols} numbers on their way`, got);
    }
    return oldest;
  }
}

export function linkOf(op: string, link: StageLink): RefStageLink {
  if (!(link instanceof RefStageLink))
    throw new ShapeError(op, 'a link of the reference', link.constructor.name);
  return link;
}
