// Runs one request at a time and can stop it.

import { useRef, useState } from 'preact/hooks';
import { answered } from './answer.ts';
import { type Message, message } from './message.ts';
import type { GenerationRequest } from './request-body.ts';

export interface Generation {
  readonly isRunning: boolean;
  readonly error: string | null;
  /** Gives the growing answer to `show`; resolves when it is over, however it ended. */
  run(request: () => GenerationRequest, show: (answer: Message) => void): Promise<void>;
  stop(): void;
  fail(error: unknown): void;
}

export function useGeneration(): Generation {
  const [isRunning, setIsRunning] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const controller = useRef<AbortController | null>(null);
  const fail = (thrown: unknown) => setError(thrown instanceof Error ? thrown.message : String(thrown));

  async function run(request: () => GenerationRequest, show: (answer: Message) => void): Promise<void> {
    controller.current = new AbortController();
    const { signal } = controller.current;
    setIsRunning(true);
    setError(null);
    try {
      for await (const answer of answered(request(), message('assistant', ''), signal)) show(answer);
    } catch (thrown) {
      if (!signal.aborted) fail(thrown);
    } finally {
      setIsRunning(false);
    }
  }
  return { isRunning, error, run, stop: () => controller.current?.abort(), fail };
}
