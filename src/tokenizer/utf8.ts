// Where the last whole character of a byte sequence ends: the decoders cut their input there.

/** Length of the sequence that `lead` opens, 0 when no sequence may start with it. */
function sequenceLength(lead: number): number {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

/** Whether `byte` may follow `lead` directly: the table of well-formed sequences of the Unicode standard. */
function isSecondByte(lead: number, byte: number): boolean {
  if (lead === 0xe0) return byte >= 0xa0 && byte <= 0xbf;
  if (lead === 0xed) return byte >= 0x80 && byte <= 0x9f;
  if (lead === 0xf0) return byte >= 0x90 && byte <= 0xbf;
  if (lead === 0xf4) return byte >= 0x80 && byte <= 0x8f;
  return isContinuation(byte);
}

function isContinuation(byte: number): boolean {
  return byte >= 0x80 && byte <= 0xbf;
}

/** How many bytes at the end of `bytes` are the valid beginning of a character that is not complete yet: 0 to 3. */
export function unfinishedTail(bytes: ArrayLike<number>): number {
  for (let tail = 1; tail <= Math.min(3, bytes.length); tail++) {
    const start = bytes.length - tail;
    const lead = bytes[start] ?? 0;
    if (isContinuation(lead)) continue;
    const isValid = tail === 1 || isSecondByte(lead, bytes[start + 1] ?? 0);
    return isValid && sequenceLength(lead) > tail ? tail : 0;
  }
  return 0;
}
