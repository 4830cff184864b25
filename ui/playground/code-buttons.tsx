// Copies the request of the playground as code.

import { useState } from 'preact/hooks';
import { asCode, LANGUAGES, type Language } from './as-code.ts';
import { copyText } from './copy-text.ts';
import type { GenerationRequest } from './request-body.ts';

interface Properties {
  /** @throws SyntaxError where a field cannot be read. */
  readonly request: () => GenerationRequest;
  readonly failed: (error: unknown) => void;
}

export function CodeButtons({ request, failed }: Properties) {
  const [copied, setCopied] = useState<Language | null>(null);
  const copy = async (language: Language) => {
    try {
      await copyText(asCode(language, request()));
      setCopied(language);
    } catch (error) {
      failed(error);
    }
  };
  return (
    <span class="copy">
      {'Copy as '}
      {LANGUAGES.map((language) => (
        <button key={language} type="button" class="quiet" onClick={() => copy(language)}>
          {language}
          {copied === language && ' ✓'}
        </button>
      ))}
    </span>
  );
}
