// A link between two stages, of which the addon has the memory.

import type { NativeStageLink as Link, NativeBackend } from '../../native/native-backend.ts';
import type { StageLink } from '../ops.ts';

export class NativeStageLink implements StageLink {
  /** The backend that receives. */
  readonly native: NativeBackend;
  readonly link: Link;
  readonly capacity: number;

  constructor(native: NativeBackend, link: Link, capacity: number) {
    this.native = native;
    this.link = link;
    this.capacity = capacity;
  }
}
