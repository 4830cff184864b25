// Dates as chat templates ask for them: the codes of Python's strftime, in English, local time.

const MONTHS = 'January February March April May June July August September October November December'.split(
  ' ',
);
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

const DAY_MS = 86_400_000;

/** Formats `date`; a code that is not known stays as it is. */
export function strftime(date: Date, format: string): string {
  return format.replace(/%(-?)([A-Za-z%])/g, (whole, bare: string, code: string) => {
    const text = field(date, code);
    if (text === null) return whole;
    return bare === '-' ? text.replace(/^0+(?=\d)/, '') : text;
  });
}

function field(date: Date, code: string): string | null {
  const two = (value: number) => String(value).padStart(2, '0');
  const month = MONTHS[date.getMonth()] ?? '';
  const day = DAYS[date.getDay()] ?? '';
  const fields: Record<string, () => string> = {
    Y: () => String(date.getFullYear()),
    y: () => two(date.getFullYear() % 100),
    m: () => two(date.getMonth() + 1),
    B: () => month,
    b: () => month.slice(0, 3),
    d: () => two(date.getDate()),
    A: () => day,
    a: () => day.slice(0, 3),
    j: () => String(dayOfYear(date)).padStart(3, '0'),
    H: () => two(date.getHours()),
    I: () => two(date.getHours() % 12 || 12),
    M: () => two(date.getMinutes()),
    S: () => two(date.getSeconds()),
    p: () => (date.getHours() < 12 ? 'AM' : 'PM'),
    F: () => strftime(date, '%Y-%m-%d'),
    T: () => strftime(date, '%H:%M:%S'),
    '%': () => '%',
  };
  return fields[code]?.() ?? null;
}

function dayOfYear(date: Date): number {
  const midnight = Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
  return Math.round((midnight - Date.UTC(date.getFullYear(), 0, 1)) / DAY_MS) + 1;
}
