// Where the user writes, and the buttons of a conversation.

import { useState } from 'preact/hooks';
import { Images, readImages } from './images.tsx';

interface Properties {
  /** What is to be written next. */
  readonly label: string;
  readonly isRunning: boolean;
  readonly isEmpty: boolean;
  /** Whether images may go with it. */
  readonly takesImages: boolean;
  readonly send: (text: string, images: readonly string[]) => void;
  readonly stop: () => void;
  readonly retry: () => void;
  readonly clear: () => void;
  readonly failed: (error: unknown) => void;
}

export function Composer(properties: Properties) {
  const { label, isRunning, isEmpty, takesImages, send, stop, retry, clear, failed } = properties;
  const [text, setText] = useState('');
  const [images, setImages] = useState<readonly string[]>([]);
  const attach = (files: FileList | null | undefined) => {
    if (!takesImages) return;
    readImages(files).then((read) => setImages((before) => [...before, ...read]), failed);
  };
  /** A text that is dropped is the field's own affair. */
  const accept = (event: DragEvent) => {
    if (event.dataTransfer?.types.includes('Files')) event.preventDefault();
  };
  const drop = (event: DragEvent) => {
    accept(event);
    attach(event.dataTransfer?.files);
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (isRunning || text.trim() === '') return;
    send(text, images);
    setText('');
    setImages([]);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) submit(event);
  };
  return (
    <form class="composer" onSubmit={submit} onDragOver={accept} onDrop={drop}>
      <Images urls={images} remove={(place) => setImages(images.toSpliced(place, 1))} />
      <textarea
        rows={3}
        aria-label={label}
        placeholder={`${label} · Enter sends, Shift+Enter is a new line, Escape stops`}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={keys}
        onPaste={({ clipboardData }) => attach(clipboardData?.files)}
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
        {takesImages && (
          <label>
            Images{' '}
            <input
              type="file"
              accept="image/*"
              multiple
              onChange={({ currentTarget }) => {
                attach(currentTarget.files);
                // The same file may be picked again.
                currentTarget.value = '';
              }}
            />
          </label>
        )}
      </div>
    </form>
  );
}
