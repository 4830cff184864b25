/** Why an answer ended, in the protocol's words: at an end token or what the request stops at, at its length, or because it went in circles. */
export type FinishReason = 'stop' | 'length' | 'repetition';
