// A message of the conversation, as the playground shows it and sends it back.

export interface TokenProbability {
  readonly token: string;
  readonly logprob: number;
}

/** A token of an answer, with the tokens that were likely in its place. */
export interface SampledToken extends TokenProbability {
  readonly alternatives: readonly TokenProbability[];
}

export interface ToolCall {
  readonly id: string;
  readonly type: 'function' | 'custom';
  readonly name: string;
  /** As the model wrote it: JSON, or the text of a custom call. */
  readonly input: string;
}

export interface Message {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string;
  /** data: URLs, before the text. */
  readonly images: readonly string[];
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  /** Of the call that a tool's message answers. */
  readonly toolCallId: string | null;
  /** Empty where probabilities were not asked for. */
  readonly tokens: readonly SampledToken[];
  /** How the answer ended, and what it cost. */
  readonly note: string;
}

export function message(role: Message['role'], content: string, toolCallId: string | null = null): Message {
  return { role, content, images: [], reasoning: '', toolCalls: [], toolCallId, tokens: [], note: '' };
}
