// Lists of processors as Linux writes them: `0-3,8`.

/** Its numbers in their order; null where it is no such list, or an empty one. */
export function cpuList(text: string): number[] | null {
  const cpus: number[] = [];
  for (const part of text.trim().split(',')) {
    const [, first, last = first] = /^\s*(\d{1,5})(?:-(\d{1,5}))?\s*$/.exec(part) ?? [];
    if (first === undefined || Number(last) < Number(first)) return null;
    for (let cpu = Number(first); cpu <= Number(last); cpu++) cpus.push(cpu);
  }
  return cpus;
}

/** The shortest text for ascending numbers: 0, 1, 2, 8 is `0-2,8`. */
export function showCpus(cpus: readonly number[]): string {
  const ranges: [first: number, last: number][] = [];
  for (const cpu of cpus) {
    const range = ranges.at(-1);
    if (range?.[1] === cpu - 1) range[1] = cpu;
    else ranges.push([cpu, cpu]);
  }
  return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(',');
}
