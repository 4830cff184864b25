// Chooses the model that answers: the server of --url, a named model in this process, or one that is found unasked.

import { setTimeout as sleep } from 'node:timers/promises';
import type { GivenOption, OptionSource } from '../../config/merge.ts';
import type { OptionKey } from '../../config/options.ts';
import { ConfigError } from '../../errors.ts';
import { type ApiClient, ApiError, LoadingError, listModels, UnreachableError } from '../api-client.ts';
import { startLocalModel } from '../local-model.ts';
import type { Output } from './output.ts';

/** Where svc serve listens unless told otherwise. */
const USUAL_URL = 'http://localhost:8000/v1';

/** A server loads a model within this time, or somebody must look at it. */
const LOADING_DEADLINE_MS = 600_000;
const LOADING_POLL_MS = 300;

/** Null where the user gave no value. */
export interface Target {
  readonly url: string | null;
  /** Folder or name of a model to run here. */
  readonly model: string | null;
  readonly modelName: string | null;
  readonly apiKey: string;
}

export interface Connection {
  readonly client: ApiClient;
  readonly model: string;
  /** In tokens; null where the server does not tell. */
  readonly contextLength: number | null;
  close(): Promise<void>;
}

/** @throws ApiError, ConfigError and ModelLoadError, which say what to do. */
export async function connect(target: Target, output: Output): Promise<Connection> {
  const { url, model, modelName, apiKey } = target;
  if (model !== null) {
    const other = url !== null ? '--url' : modelName !== null ? '--model-name' : null;
    if (other === null) return connectHere(model);
    throw new ConfigError(`${model} would run here and ${other} asks for a server: give one of them`);
  }
  try {
    return await connectTo({ url: url ?? USUAL_URL, apiKey }, modelName, output);
  } catch (error) {
    if (!(error instanceof UnreachableError) || url !== null || modelName !== null) throw error;
    output.note(
      `Nothing answers at ${USUAL_URL}, so the small model that svc brings along runs here. It knows little: ` +
        'svc chat <model> runs another.',
    );
    return connectHere(null);
  }
}

async function connectTo(client: ApiClient, wanted: string | null, output: Output): Promise<Connection> {
  const cards = await whenLoaded(() => listModels(client), output);
  const card = wanted === null ? cards[0] : cards.find(({ id }) => id === wanted);
  // A server may take names that it does not list: it will say.
  const { id, contextLength } = card ?? { id: wanted ?? '', contextLength: null };
  return { client, model: id, contextLength, close: async () => {} };
}

async function whenLoaded<T>(request: () => Promise<T>, output: Output): Promise<T> {
  const deadline = performance.now() + LOADING_DEADLINE_MS;
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await request();
    } catch (error) {
      if (!(error instanceof LoadingError) || performance.now() > deadline) throw error;
      if (isFirst) output.note('The server is still loading its model: waiting for it.');
    }
    await sleep(LOADING_POLL_MS);
  }
}

async function connectHere(model: string | null): Promise<Connection> {
  const { client, close } = await startLocalModel(forOneConversation(model));
  const [card] = await listModels(client);
  if (card === undefined) throw new ApiError('the model that was started has no name');
  return { client, model: card.id, contextLength: card.contextLength, close };
}

/** One conversation needs the KV memory of one request, and rather has a shorter context than none. */
function forOneConversation(model: string | null): OptionSource {
  const origin = 'svc chat';
  const given = new Map<OptionKey, GivenOption>([
    ['maxNumSeqs', { value: 1, origin }],
    ['maxModelLen', { value: 'auto', origin }],
  ]);
  return model === null ? given : given.set('model', { value: model, origin: 'model' });
}
