// What both instances call one transfer, and how they make sure that they mean the same prompt.

import { type PairedRequestId, parseRequestId } from '../../cluster/request-id.ts';
import { blockHash, type ExtraKey, ROOT_HASH } from '../../kv-cache/prefix-hash.ts';

/** `<request id of the proxy>#<number of the prompt>`. */
export function transferKey(id: PairedRequestId, promptIndex: number): string {
  return `${id.id}#${promptIndex}`;
}

/** The id in a key that another instance sent; null where it is no key. */
export function idOfKey(key: string): PairedRequestId | null {
  const [, text = ''] = /^(.*)#(?:0|[1-9][0-9]{0,8})$/.exec(key) ?? [];
  const id = parseRequestId(text);
  return id?.id === text ? id : null;
}

/** Whether a key belongs to this request id. */
export function isKeyOf(key: string, id: PairedRequestId): boolean {
  return key.startsWith(`${id.id}#`);
}

/** Name of a prompt, in hexadecimal: both instances must mean the same tokens and the same extra keys. */
export function promptHash(tokenIds: readonly number[], extraKeys: readonly ExtraKey[]): string {
  return Buffer.from(blockHash(ROOT_HASH, tokenIds, 0, extraKeys), 'latin1').toString('hex');
}
