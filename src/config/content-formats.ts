// --chat-template-content-format: in which form a chat template gets the content of a message.

/** `auto` is whatever the template writes out. */
export const CONTENT_FORMATS = ['auto', 'string', 'openai'] as const;

export type ContentFormat = (typeof CONTENT_FORMATS)[number];
