// Where the user writes, and the buttons of a conversation.

import { useState } from 'preact/hooks';

interface Properties {
  /** What is to be written next. */
  readonly label: string;
  readonly isRunning: boolean;
  readonly isEmpty: boolean;
  readonly send: (text: string) => void;
  readonly stop: () => void;
  readonly retry: () => void;
  readonly clear: () => void;
}

export function Composer({ label, isRunning, isEmpty, send, stop, retry, clear }: Properties) {
  const [text, setText] = useState('');
  const submit = (event: Event) => {
    event.preventDefault();
    if (isRunning || text.trim() === '') return;
    send(text);
    setText('');
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) submit(event);
  };
  return (
    <form class="composer" onSubmit={submit}>
      <textarea
        rows={3}
        aria-label={label}
        placeholder={`${label} · Enter sends, Shift+Enter is a new line, Escape stops`}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={keys}
      />
      <div class="bar">
        <button type="submit" disabled={isRunning}>
          Send
        </button>
        <button type="button" onClick={stop} disabled={!isRunning}>
          Stop
        </button>
        <button type="button" onClick={retry} disabled={isRunning || isEmpty}>
          Retry
        </button>
        <button type="button" onClick={clear} disabled={isRunning || isEmpty}>
          Clear
        </button>
      </div>
    </form>
  );
}
