// The models of `LLM` for the `ai` SDK, in the same process: its provider interface, version 3.

import type { EmbeddingModelV3, LanguageModelV3 } from '@ai-sdk/provider';
import type { LLM } from '../llm/llm.ts';
import { readCall } from './call.ts';
import { collectParts, streamParts } from './stream-parts.ts';

/**
 * A model for `generateText`, `streamText` and objects. Fields of sampling that the SDK does not have are in
 * `providerOptions.svc`, and so are `chatTemplateKwargs`. `llm` stays the caller's to close.
 * @param modelId what the SDK calls the model.
 */
export function languageModel(llm: LLM, modelId = 'svc'): LanguageModelV3 {
  return {
    specificationVersion: 'v3',
    provider: 'svc',
    modelId,
    // `LLM` fetches them, from where it may.
    supportedUrls: { 'image/*': [/^https?:/] },
    async doGenerate(options) {
      const { messages, sampling, chat, warnings } = readCall(options);
      return { ...(await collectParts(streamParts(llm.streamChat(messages, sampling, chat)))), warnings };
    },
    async doStream(options) {
      const { messages, sampling, chat, warnings } = readCall(options);
      const parts = streamParts(llm.streamChat(messages, sampling, chat));
      // What is wrong with the call is told before there is a stream.
      const first = await parts.next();
      const stream = new ReadableStream({
        start(controller) {
          controller.enqueue({ type: 'stream-start', warnings });
          if (!first.done) controller.enqueue(first.value);
        },
        async pull(controller) {
          const { value, done } = await parts.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
        async cancel() {
          await parts.return();
        },
      });
      return { stream };
    },
  };
}

/** A model for `embed` and `embedMany`, of an `llm` that embeds. */
export function embeddingModel(llm: LLM, modelId = 'svc'): EmbeddingModelV3 {
  return {
    specificationVersion: 'v3',
    provider: 'svc',
    modelId,
    maxEmbeddingsPerCall: undefined,
    supportsParallelCalls: true,
    async doEmbed({ values, abortSignal: signal }) {
      const outputs = await llm.embed(values, { signal, useProgressBar: false });
      return {
        embeddings: outputs.map((output) => [...output.outputs.embedding]),
        usage: { tokens: outputs.reduce((sum, { prompt_token_ids: { length } }) => sum + length, 0) },
        warnings: [],
      };
    },
  };
}
