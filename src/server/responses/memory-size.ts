// How much memory a value of JSON takes once it is objects: many times its text where it is of many small ones.

/** Bytes, about: what V8 takes for each, the places in what holds it and the ends that fill up words included. */
const CONTAINER = 64;
const FIELD = 40;
const ELEMENT = 8;
const TEXT = 32;
const CHARACTER = 2;
const NUMBER = 16;

/** Bytes of all that `value` holds; what it holds in two places counts twice. */
export function memorySize(value: unknown): number {
  if (typeof value === 'string') return TEXT + CHARACTER * value.length;
  if (typeof value === 'number') return NUMBER;
  if (typeof value !== 'object' || value === null) return 0;
  if (Array.isArray(value)) return value.reduce<number>(withElement, CONTAINER);
  return Object.entries(value).reduce(withField, CONTAINER);
}

function withElement(size: number, element: unknown): number {
  return size + ELEMENT + memorySize(element);
}

function withField(size: number, [name, value]: readonly [string, unknown]): number {
  return size + FIELD + CHARACTER * name.length + memorySize(value);
}
