// An answer in its parts: what the model thinks, what it says, and the functions it calls.

export type AnswerPart =
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'content'; readonly text: string }
  /** A call begins; the arguments after it are its own. */
  | {
      readonly kind: 'call';
      readonly name: string;
      /** Of a custom tool. */
      readonly isCustom?: true;
    }
  /** A piece of the arguments: JSON text as a whole; of a custom tool its input. */
  | { readonly kind: 'arguments'; readonly text: string };

/** A function that the model may call, as a request describes it. */
export interface FunctionTool {
  readonly name: string;
  readonly description?: string | null | undefined;
  /** JSON Schema of the object of arguments; without one the function takes none. */
  readonly parameters?: Readonly<Record<string, unknown>> | null | undefined;
  /** The arguments must fit the schema, whatever the model would write. */
  readonly strict?: boolean | null | undefined;
}

export interface FunctionCall {
  readonly name: string;
  /** JSON text; of a custom tool its input. */
  readonly arguments: string;
  /** Of a custom tool. */
  readonly isCustom?: true;
}

/** The same with neighbours of one kind as one part; each call stays its own. */
export function joinedParts(parts: readonly AnswerPart[]): AnswerPart[] {
  const joined: AnswerPart[] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (last === undefined || part.kind === 'call' || last.kind !== part.kind) joined.push(part);
    else joined[joined.length - 1] = { ...part, text: last.text + part.text };
  }
  return joined;
}

/** A whole answer. */
export interface Answer {
  /** Null where nothing was said. */
  readonly content: string | null;
  readonly reasoning: string | null;
  readonly calls: readonly FunctionCall[];
}

export function answerOf(parts: readonly AnswerPart[]): Answer {
  const texts = { content: '', reasoning: '' };
  const calls: { name: string; arguments: string; isCustom?: true }[] = [];
  for (const part of parts) {
    if (part.kind === 'call') {
      const { kind: _, ...called } = part;
      calls.push({ ...called, arguments: '' });
    } else if (part.kind === 'arguments') calls.at(-1)!.arguments += part.text;
    else texts[part.kind] += part.text;
  }
  // Only a call or a thought stands for saying nothing: an empty answer is an empty text.
  const saysNothing = texts.content === '' && (calls.length > 0 || texts.reasoning !== '');
  return {
    content: saysNothing ? null : texts.content,
    reasoning: texts.reasoning === '' ? null : texts.reasoning,
    calls,
  };
}
