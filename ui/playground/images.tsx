// Images of a message: files that the user picks, pastes or drops become data: URLs, and are shown.

/** Those of `files` that are images, in their order. */
export function readImages(files: FileList | null | undefined): Promise<string[]> {
  return Promise.all([...(files ?? [])].filter(({ type }) => type.startsWith('image/')).map(dataUrl));
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

interface Properties {
  readonly urls: readonly string[];
  /** Left out where they stay. */
  readonly remove?: (place: number) => void;
}

export function Images({ urls, remove }: Properties) {
  if (urls.length === 0) return null;
  return (
    <div class="bar">
      {urls.map((url, place) => (
        <span key={place} class="image">
          <img src={url} alt={`${place + 1} of the message`} />
          {remove !== undefined && (
            <button
              type="button"
              class="quiet"
              aria-label={`Remove image ${place + 1}`}
              onClick={() => remove(place)}
            >
              ×
            </button>
          )}
        </span>
      ))}
    </div>
  );
}
