// Asks for an API key: a browser has none by itself.

import { useState } from 'preact/hooks';
import { hasKey, setKey } from './api.ts';

export function KeyForm({ entered }: { entered: () => void }) {
  const [text, setText] = useState('');
  const submit = (event: Event) => {
    event.preventDefault();
    setKey(text);
    entered();
  };
  return (
    <form class="key" onSubmit={submit}>
      <label>
        {hasKey() ? 'That is none of the keys of this server. ' : 'This server wants an API key. '}
        <input
          type="password"
          autocomplete="current-password"
          required
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
      <button type="submit">Use it</button>
    </form>
  );
}
