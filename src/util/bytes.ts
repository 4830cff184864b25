// Numbers of bytes for people.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** `1.5 GiB` */
export function bytes(count: number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  return `${(count / 2 ** (10 * power)).toFixed(power === 0 ? 0 : 1)} ${UNITS[power]}`;
}
