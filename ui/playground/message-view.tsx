// One message: its text or tokens, what the model thought before, and the tools that it calls.

import { Images } from './images.tsx';
import type { Message } from './message.ts';
import { TokenView } from './token-view.tsx';

interface Properties {
  readonly message: Message;
  /** Takes the message, and all that follow it, out of the conversation. */
  readonly remove: () => void;
}

export function MessageView({ message, remove }: Properties) {
  const { role, content, images, reasoning, toolCalls, tokens, note } = message;
  return (
    <article class={`message ${role}`}>
      <header>
        <span>{role}</span>
        <span class="note">{note}</span>
        <button type="button" class="quiet" aria-label={`Remove from here on: ${role}`} onClick={remove}>
          ×
        </button>
      </header>
      {reasoning !== '' && (
        <details>
          <summary>reasoning</summary>
          <p class="text">{reasoning}</p>
        </details>
      )}
      <Images urls={images} />
      {tokens.length > 0 ? <TokenView tokens={tokens} /> : <p class="text">{content}</p>}
      {toolCalls.map(({ id, name, input }) => (
        <pre key={id}>
          {name}({input})
        </pre>
      ))}
    </article>
  );
}
