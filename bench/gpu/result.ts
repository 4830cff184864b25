// What a part of the GPU check found, one line of JSON each: the part runs in a process of its own, which may crash or hang.

import { z } from 'zod';

const resultSchema = z.object({
  name: z.string(),
  /** `measured` is a figure; `missing` says that this machine lacks what it takes. */
  outcome: z.enum(['passed', 'failed', 'measured', 'missing']),
  value: z.number().nullable(),
  unit: z.string(),
  /** The least `value` that is to be reached; null where it is only watched. */
  goal: z.number().nullable(),
  note: z.string(),
});

export type Result = z.infer<typeof resultSchema>;

const PLAIN = { value: null, unit: '', goal: null } as const;

export function passed(name: string, note = ''): Result {
  return { name, outcome: 'passed', ...PLAIN, note };
}

export function failed(name: string, note: string): Result {
  return { name, outcome: 'failed', ...PLAIN, note };
}

export function missing(name: string, note: string): Result {
  return { name, outcome: 'missing', ...PLAIN, note };
}

interface Held {
  readonly goal?: number | null;
  readonly note?: string;
}

export function measured(
  name: string,
  value: number,
  unit: string,
  { goal = null, note = '' }: Held = {},
): Result {
  return { name, outcome: 'measured', value, unit, goal, note };
}

/** From a part to the command that started it. */
export function report(result: Result): void {
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

/** The results among the lines that a part wrote; the last line may be cut off. */
export function resultsIn(text: string): Result[] {
  return text.split('\n').flatMap((line) => {
    const parsed = resultSchema.safeParse(parseOrNull(line));
    return parsed.success ? [parsed.data] : [];
  });
}

function parseOrNull(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}
