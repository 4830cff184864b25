// What passes between the main thread and the one that renders.

/** Given to the thread as it starts. */
export interface RenderThreadData {
  readonly source: string;
}

/** The variables of one conversation: JSON. */
export type Variables = Readonly<Record<string, unknown>>;

/** Why there is no text: the template's author says no, it fails, or a limit was reached. */
export interface RenderProblem {
  readonly kind: 'refusal' | 'failure' | 'limit';
  readonly reason: string;
}

export type FromRenderThread =
  | { readonly type: 'ready' }
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'problem'; readonly problem: RenderProblem };
