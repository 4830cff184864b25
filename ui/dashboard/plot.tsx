// One graph over the last minutes at most.

import { useEffect, useRef } from 'preact/hooks';
import UPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

export interface Line {
  readonly label: string;
  /** One value a time; null leaves a gap. */
  readonly values: readonly (number | null)[];
}

interface Properties {
  readonly title: string;
  readonly unit: string;
  /** Unix seconds. */
  readonly times: readonly number[];
  readonly lines: readonly Line[];
}

const HEIGHT = 150;
/** Shown at least. */
const SECONDS = 60;
const COLOURS = ['--line-1', '--line-2', '--line-3'];

export function Plot({ title, unit, times, lines }: Properties) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | null>(null);

  useEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const made = new UPlot(optionsOf(element, lines), [[]], element);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
    };
  }, []);
  useEffect(() => {
    plot.current?.setData([[...times], ...lines.map(({ values }) => [...values])]);
  });

  return (
    <figure>
      <figcaption>
        {title}
        {lines.map(({ label, values }, place) => (
          <span key={label} style={{ color: `var(${COLOURS[place]})` }}>
            {label} {shown(values.at(-1) ?? null)} {unit}
          </span>
        ))}
      </figcaption>
      <div ref={frame} />
    </figure>
  );
}

function optionsOf(element: HTMLElement, lines: readonly Line[]): UPlot.Options {
  const colour = (name: string) => () => colourOf(element, name);
  const axis = { stroke: colour('--text'), grid: { stroke: colour('--grid'), width: 1 } };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { range: (_plot, first, last) => [Math.min(first, last - SECONDS), last] },
      y: { range: (_plot, _low, high) => [0, Math.max(high, 1) * 1.1] },
    },
    axes: [
      { ...axis, values: '{HH}:{mm}:{ss}', space: 80 },
      { ...axis, size: 60 },
    ],
    series: [
      {},
      ...lines.map((_, place) => ({
        stroke: colour(COLOURS[place] ?? '--text'),
        width: 1.5,
        points: { show: false },
      })),
    ],
  };
}

/** A canvas needs the colour that a name stands for at the moment, light or dark. */
function colourOf(element: HTMLElement, name: string): string {
  element.style.color = `var(${name})`;
  const { color } = getComputedStyle(element);
  element.style.color = '';
  return color;
}

function shown(value: number | null): string {
  if (value === null) return '–';
  return value.toLocaleString('en', { maximumSignificantDigits: 3 });
}
