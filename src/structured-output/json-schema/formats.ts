// The formats of JSON Schema, as patterns for the whole string. Formats that it does not define, such as `int32`, are notes.

const DAY_OF_MONTH = [
  '(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01]))',
  '(?:(?:0[469]|11)-(?:0[1-9]|[12]\\d|30))',
  '(?:02-(?:0[1-9]|1\\d|2[0-8]))',
].join('|');
const LEAP_YEAR = '(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)';
const DATE = `(?:\\d{4}-(?:${DAY_OF_MONTH})|${LEAP_YEAR}-02-29)`;
const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)';
const DAYS = '(?:\\d{1,9}Y(?:\\d{1,9}M(?:\\d{1,9}D)?)?|\\d{1,9}M(?:\\d{1,9}D)?|\\d{1,9}D)';
const HOURS = 'T(?:\\d{1,9}H(?:\\d{1,9}M(?:\\d{1,9}S)?)?|\\d{1,9}M(?:\\d{1,9}S)?|\\d{1,9}S)';
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const IPV4 = `(?:${BYTE}\\.){3}${BYTE}`;
const GROUP = '[0-9A-Fa-f]{1,4}';
// Lengths are not counted: each place of a counted text would have a mask of its own.
const LABEL = '[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*';
const HOSTNAME = `${LABEL}(?:\\.${LABEL})*`;
const MAILBOX = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*";
const ESCAPED = '%[0-9A-Fa-f]{2}';
/** Beyond ASCII, of the planes that have characters. */
const WIDE =
  '\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}\\u{20000}-\\u{2fffd}\\u{30000}-\\u{3fffd}';
const POINTER = '(?:/(?:[^~/]|~[01])*)*';
const VARIABLE = `(?:\\w|${ESCAPED})+(?:\\.(?:\\w|${ESCAPED})+)*(?::[1-9]\\d{0,3}|\\*)?`;
const EXPRESSION = `\\{[+#./;?&]?${VARIABLE}(?:,${VARIABLE})*\\}`;

/** With a scheme. @param wide characters beyond those of a URI. */
function absolute(wide: string): string {
  const character = uriCharacter(':/?', wide);
  return `[A-Za-z][A-Za-z0-9+.-]*:${character}+(?:#${character}*)?`;
}

/** The same, or relative: there a colon in the first segment would make a scheme of it. */
function reference(wide: string): string {
  const character = uriCharacter(':/?', wide);
  return `(?:${absolute(wide)}|${uriCharacter('', wide)}*(?:[/?]${character}*)?(?:#${character}*)?)`;
}

function uriCharacter(marks: string, wide: string): string {
  return `(?:[A-Za-z0-9._~@!$&'()*+,;=${marks}${wide}-]|${ESCAPED})`;
}

/** Groups before and after the double colon, which stands for at least one. */
function ipv6(): string {
  const last = `(?:${GROUP}:${GROUP}|${IPV4})`;
  const forms = [`(?:${GROUP}:){6}${last}`];
  for (let before = 0; before <= 6; before += 1) {
    const head = before === 0 ? '' : `${GROUP}(?::${GROUP}){0,${before - 1}}`;
    const after = 6 - before - 1;
    if (after >= 0) forms.push(`(?:${head})?::(?:${GROUP}:){${after}}${last}`);
  }
  const headOfSix = `${GROUP}(?::${GROUP}){0,5}`;
  const headOfSeven = `${GROUP}(?::${GROUP}){0,6}`;
  return [...forms, `(?:${headOfSix})?::${GROUP}`, `(?:${headOfSeven})?::`]
    .map((form) => `(?:${form})`)
    .join('|');
}

export const FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE}T${TIME}`,
  duration: `P(?:\\d{1,9}W|${DAYS}(?:${HOURS})?|${HOURS})`,
  email: `${MAILBOX}@${HOSTNAME}`,
  hostname: HOSTNAME,
  ipv4: IPV4,
  ipv6: ipv6(),
  uri: absolute(''),
  'uri-reference': reference(''),
  iri: absolute(WIDE),
  'iri-reference': reference(WIDE),
  'uri-template': `(?:[!#$&(-;=?-\\[\\]_a-z~${WIDE}]|${ESCAPED}|${EXPRESSION})*`,
  uuid: '[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}',
  'json-pointer': POINTER,
  'relative-json-pointer': `(?:0|[1-9]\\d*)(?:#|${POINTER})`,
};

/** Those that no pattern of a fair size describes. */
export const REFUSED_FORMATS: ReadonlySet<string> = new Set(['idn-email', 'idn-hostname', 'regex']);
