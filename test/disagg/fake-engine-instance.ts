// A whole instance but for the model: HTTP, registration, connector and KV memory are real; the "model" writes bytes that
// follow from the prompt and answers tokens that follow from the bytes it finds. So a wrong block makes a wrong answer.
// Many fit into one process.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { InstanceLoad } from '../../src/cluster/discovery-message.ts';
import { Registration } from '../../src/cluster/registration.ts';
import type { KvTransferConfig } from '../../src/config/kv-transfer-config.ts';
import type { SequenceTransfer } from '../../src/kv-transfer/connector.ts';
import { loadNative } from '../../src/native/native.ts';
import {
  COMPATIBILITY,
  expectedLayerBlock,
  KvInstance,
  type KvInstanceOptions,
  NUM_BLOCKS,
} from '../helpers/kv-instance.ts';

const Body = z.object({
  prompt: z.array(z.int()),
  max_tokens: z.int().default(16),
  stream: z.boolean().default(false),
  svc_resume: z.object({ created: z.number(), choices: z.array(z.array(z.int())) }).optional(),
});
type Body = z.infer<typeof Body>;

const Cancel = z.object({ request_id: z.string() });

export interface FakeEngineOptions extends KvInstanceOptions {
  readonly httpPort: number;
  /** Control address that the proxy is told, where it is not the instance's own. */
  readonly doorPort?: number;
  /** Time that a block of the prompt, and a token of the answer, takes. */
  readonly blockMs?: number;
  readonly tokenMs?: number;
}

/** What the blocks of `prompt` make the model say. */
export function expectedTokens(prompt: readonly number[], count: number): number[] {
  const pieces = [];
  for (let layer = 0; layer < COMPATIBILITY.layers; layer += 1) {
    for (let index = 0; index < blocksOf(prompt); index += 1)
      pieces.push(expectedLayerBlock(prompt, layer, index));
  }
  return tokensFrom(Buffer.concat(pieces), count);
}

/** Blocks that hold all tokens but the last. */
function blocksOf(prompt: readonly number[]): number {
  return Math.ceil((prompt.length - 1) / COMPATIBILITY.blockSize);
}

function tokensFrom(bytes: Uint8Array, count: number): number[] {
  const sum = loadNative().crc32c(bytes);
  return Array.from({ length: count }, (_, position) => ((sum >>> 3) + position * 7919) % 50_000);
}

export class FakeEngineInstance {
  readonly kv: KvInstance;
  /** Requests that are being answered. */
  numInFlight = 0;
  readonly #options: FakeEngineOptions;
  readonly #server: Server;
  readonly #registration: Registration | null;

  private constructor(kv: KvInstance, server: Server, options: FakeEngineOptions) {
    this.kv = kv;
    this.#server = server;
    this.#options = options;
    const port = options.doorPort ?? kv.config.port;
    const config: KvTransferConfig = { ...kv.config, port, httpPort: options.httpPort };
    this.#registration = Registration.start(config, { model: 'fake', load: async () => this.#engineLoad() });
  }

  #engineLoad(): InstanceLoad {
    const { numFreeBlocks } = this.kv;
    return {
      running: this.numInFlight,
      waiting: 0,
      free_blocks: numFreeBlocks,
      num_blocks: NUM_BLOCKS,
    };
  }

  static async start(options: FakeEngineOptions): Promise<FakeEngineInstance> {
    const { httpPort, doorPort: _door, blockMs: _block, tokenMs: _token, ...instance } = options;
    const kv = await KvInstance.start(instance);
    const server = createServer((request, response) => void fake.#answer(request, response));
    // As long as those of `svc serve`: a client that is late would write into one that is just being closed.
    server.keepAliveTimeout = 72_000;
    const fake = new FakeEngineInstance(kv, server, options);
    await new Promise<void>((resolve) => server.listen(httpPort, '127.0.0.1', resolve));
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#options.httpPort}`;
  }

  /** Finishes what is in flight, takes nothing new. */
  async drain(): Promise<void> {
    this.#registration?.drain();
    while (this.numInFlight > 0) await sleep(5);
    await this.close();
  }

  async close(): Promise<void> {
    this.#registration?.close();
    this.#server.closeAllConnections();
    this.#server.close();
    await this.kv.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      if (request.url === '/kv_transfer/cancel') {
        this.kv.connector.cancel(Cancel.parse(await json(request)).request_id);
        response.end('{}');
      } else if (request.url === '/stats') {
        const { stats, numFreeBlocks } = this.kv;
        response.end(JSON.stringify({ stats, numFreeBlocks, numInFlight: this.numInFlight }));
      } else if (request.url === '/v1/completions') {
        await this.#complete(request, response);
      } else {
        response.writeHead(request.url === '/health' ? 200 : 404).end('{}');
      }
    } catch (error) {
      response.writeHead(500).end(JSON.stringify({ error: { message: String(error) } }));
    }
  }

  async #complete(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = Body.parse(await json(request));
    const requestId = String(request.headers['x-request-id'] ?? '');
    const abort = new AbortController();
    response.once('close', () => {
      if (!response.writableFinished) abort.abort();
    });
    const transfer = this.kv.open(requestId, body.prompt, { maxTokens: body.max_tokens });
    this.numInFlight += 1;
    let isComplete = false;
    try {
      const tokens = await this.#run(body, transfer?.sequences[0] ?? null, abort.signal);
      await transfer?.answerable();
      if (body.stream) await this.#stream(body, tokens, response, abort.signal);
      else response.end(JSON.stringify(answer(body, tokens, 'length')));
      isComplete = true;
    } catch (error) {
      if (!abort.signal.aborted) throw error;
    } finally {
      this.numInFlight -= 1;
      transfer?.end(isComplete);
    }
  }

  /** Computes the prompt, or lets its blocks come. */
  async #run(body: Body, sequence: SequenceTransfer | null, signal: AbortSignal): Promise<number[]> {
    const { prompt, max_tokens } = body;
    const blocks = this.kv.takeBlocks(prompt);
    try {
      const numLoaded = sequence?.kind === 'load' ? await this.#load(sequence, blocks, signal) : 0;
      const first = Math.floor(numLoaded / COMPATIBILITY.blockSize);
      if (numLoaded < prompt.length - 1) await this.#compute(sequence, prompt, blocks, first, signal);
      return tokensFrom(this.kv.readBlocks(blocks.slice(0, blocksOf(prompt))), max_tokens);
    } finally {
      // What is held for sending is free when the connector says so.
      if (sequence?.kind === 'send') void this.kv.released(sequence).then(() => this.kv.giveBlocks(blocks));
      else this.kv.giveBlocks(blocks);
    }
  }

  /** @returns tokens that came; rejects only after nothing writes into the blocks any more. */
  async #load(sequence: SequenceTransfer, blocks: readonly number[], signal: AbortSignal): Promise<number> {
    const { transferId } = sequence;
    const loaded = this.kv.loaded(sequence);
    this.kv.connector.consumer.onTransferEvent({ kind: 'load', transferId, firstBlock: 0, blocks });
    const giveUp = (): void => this.kv.connector.consumer.onTransferEvent({ kind: 'loadEnded', transferId });
    signal.addEventListener('abort', giveUp, { once: true });
    if (signal.aborted) giveUp();
    const numTokens = await loaded;
    signal.throwIfAborted();
    return numTokens;
  }

  async #compute(
    sequence: SequenceTransfer | null,
    prompt: readonly number[],
    blocks: readonly number[],
    first: number,
    signal: AbortSignal,
  ): Promise<void> {
    for (let index = first; index < blocks.length; index += 2) {
      this.kv.computeStep(sequence, prompt, blocks, index, Math.min(blocks.length, index + 2));
      await sleep(this.#options.blockMs ?? 0);
      signal.throwIfAborted();
    }
  }

  /** The whole stream from its beginning, also where it is resumed: who has a part of it drops that. */
  async #stream(
    body: Body,
    tokens: readonly number[],
    response: ServerResponse,
    signal: AbortSignal,
  ): Promise<void> {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    const numKnown = body.svc_resume?.choices[0]?.length ?? 0;
    for (const [index, token] of tokens.entries()) {
      if (index >= numKnown) await sleep(this.#options.tokenMs ?? 0);
      signal.throwIfAborted();
      const finish = index === tokens.length - 1 ? 'length' : null;
      response.write(`: 0 ${token}\ndata: ${JSON.stringify(answer(body, [token], finish))}\n\n`);
    }
    response.end('data: [DONE]\n\n');
  }
}

function answer(body: Body, tokens: readonly number[], finish_reason: string | null): object {
  const choice = { index: 0, text: tokens.map((token) => ` ${token}`).join(''), finish_reason };
  return {
    id: 'fake',
    object: 'text_completion',
    created: body.svc_resume?.created ?? 0,
    choices: [choice],
  };
}
