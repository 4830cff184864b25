// A thin server around node-llama-cpp: token ids in, a stream of token ids out, as the completions of svc have them. It runs as it is, without
// a compiler before it, for its start is measured too.
//
// Argument: JSON with modelPath, port, threads, numSeqs and contextSize (tokens a sequence).
//
// As the package documents for several requests at once: one context with a sequence for each, which batches by itself whatever they
// evaluate at the same time. Batches take prompts in the order in which they came; in its default order all prompts advance
// together, and all first tokens come late.

import { createServer } from 'node:http';
import { getLlama } from 'node-llama-cpp';

const { modelPath, port, threads, numSeqs, contextSize } = JSON.parse(process.argv[2]);

const llama = await getLlama({
  gpu: false,
  build: 'never',
  skipDownload: true,
  maxThreads: threads,
  logLevel: 'error',
});
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({
  sequences: numSeqs,
  contextSize,
  flashAttention: true,
  threads: { ideal: threads, min: threads },
  batching: { itemPrioritizationStrategy: 'firstInFirstOut' },
});
const free = Array.from({ length: numSeqs }, () => context.getSequence());

const about = {
  release: llama.llamaCppRelease.release,
  settings: `flash attention ${context.flashAttention}, batches of ${context.batchSize} tokens, first in first out`,
};

createServer((request, response) => {
  answer(request, response).catch((error) => response.destroy(error));
}).listen(port, '127.0.0.1');

/** @type {(request: import('node:http').IncomingMessage, response: import('node:http').ServerResponse) => Promise<void>} */
async function answer(request, response) {
  if (request.method === 'GET') {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(about));
    return;
  }
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const { prompt, max_tokens } = JSON.parse(Buffer.concat(chunks).toString());
  const sequence = free.pop();
  if (sequence === undefined) {
    response.writeHead(429).end();
    return;
  }
  response.setHeader('content-type', 'text/event-stream').flushHeaders();
  let left = max_tokens;
  for await (const token of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    response.write(`data: ${JSON.stringify({ choices: [{ token_ids: [token] }] })}\n\n`);
    left -= 1;
    if (left === 0) break;
  }
  await sequence.clearHistory();
  free.push(sequence);
  response.end('data: [DONE]\n\n');
}
