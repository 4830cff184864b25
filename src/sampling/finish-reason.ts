/** Why an answer ended, in the protocol's words: at an end token or what the request stops at, or at its length. */
export type FinishReason = 'stop' | 'length';
