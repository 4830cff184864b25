// Instances of both kinds in two columns, and a line for each pair that served a request lately.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Instance, Topology } from './instances.ts';

/** A pair is shown for so long. */
const LINE_MS = 5000;

interface Ends {
  readonly key: string;
  readonly from: DOMRect;
  readonly to: DOMRect;
  readonly opacity: number;
}

export function TopologyView({ topology: { instances, transfers } }: { topology: Topology }) {
  const frame = useRef<HTMLDivElement>(null);
  const [ends, setEnds] = useState<readonly Ends[]>([]);
  useLayoutEffect(() => {
    const boxOf = (address: string) =>
      frame.current?.querySelector(`[data-address="${CSS.escape(address)}"]`)?.getBoundingClientRect();
    const pairs = new Map<string, Ends>();
    for (const { prefill, decode, at } of transfers) {
      const [from, to] = [boxOf(prefill), boxOf(decode)];
      const opacity = 1 - (Date.now() - at) / LINE_MS;
      const key = `${prefill} ${decode}`;
      if (from && to && opacity > 0) pairs.set(key, { key, from, to, opacity });
    }
    setEnds([...pairs.values()]);
  }, [transfers]);

  const origin = frame.current?.getBoundingClientRect();
  return (
    <div class="topology" ref={frame}>
      <Column title="Prefill" instances={instances.filter(({ type }) => type === 'P')} />
      <Column title="Decode" instances={instances.filter(({ type }) => type === 'D')} />
      <svg aria-hidden="true">
        {origin &&
          ends.map(({ key, from, to, opacity }) => (
            <line
              key={key}
              x1={from.right - origin.left}
              y1={(from.top + from.bottom) / 2 - origin.top}
              x2={to.left - origin.left}
              y2={(to.top + to.bottom) / 2 - origin.top}
              stroke-opacity={opacity}
            />
          ))}
      </svg>
    </div>
  );
}

function Column({ title, instances }: { title: string; instances: readonly Instance[] }) {
  return (
    <div>
      <h2>
        {title} ({instances.length})
      </h2>
      {instances.map((instance) => (
        <InstanceBox key={instance.http_address} {...instance} />
      ))}
    </div>
  );
}

function InstanceBox({ http_address, state, is_suspect, model, load, in_flight }: Instance) {
  const shown = is_suspect && state === 'ready' ? 'suspect' : state;
  const used = load === null ? 0 : 1 - load.free_blocks / load.num_blocks;
  return (
    <div class={`instance ${shown}`} data-address={http_address}>
      <code>{http_address}</code>
      <p>
        {[shown, `${in_flight} in flight`, load && `${load.running} running, ${load.waiting} waiting`, model]
          .filter(Boolean)
          .join(' · ')}
      </p>
      {load !== null && (
        <label>
          <meter min={0} max={1} value={used} /> {load.num_blocks - load.free_blocks} of {load.num_blocks}{' '}
          blocks
        </label>
      )}
    </div>
  );
}
