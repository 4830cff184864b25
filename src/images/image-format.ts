// The formats of the image files that are read, told by how they begin.

/** By their names in media types; a dot stands for any byte. */
const BEGINNINGS = [
  ['png', /^\x89PNG\r\n/],
  ['jpeg', /^\xff\xd8\xff/],
  ['webp', /^RIFF....WEBP/s],
  ['gif', /^GIF8[79]a/],
] as const;
const BEGINNING_LENGTH = 12;

/** For people. */
export const IMAGE_FORMATS = 'PNG, JPEG, WebP and GIF (of which the first picture is taken)';

/** As media types name it; null where it is none of these. */
export function imageFormat(file: Uint8Array): (typeof BEGINNINGS)[number][0] | null {
  const beginning = Buffer.from(file.subarray(0, BEGINNING_LENGTH)).toString('latin1');
  return BEGINNINGS.find(([, pattern]) => pattern.test(beginning))?.[0] ?? null;
}
