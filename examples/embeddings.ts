// Finds the text that answers a question: node --import tsx examples/embeddings.ts <embedding model> [<reranker>]
//
// An embedding model such as BAAI/bge-small-en-v1.5 makes a vector of each text; a reranker such as BAAI/bge-reranker-base
// reads question and text together, which is slower and more exact.

import { LLM } from 'svc';

const [embedder, reranker = embedder] = process.argv.slice(2);
if (embedder === undefined) throw new Error('name an embedding model, or its folder');

const question = 'what is a cat?';
const texts = ['a cat is an animal that sleeps all day', 'the sun is a star', 'tabs and spaces'];

const llm = new LLM({ model: embedder });
const outputs = await llm.embed(texts);
for (const {
  prompt,
  outputs: { embedding },
} of outputs) {
  console.log(
    `${prompt} → ${embedding.length} numbers, ${Array.from(embedding.slice(0, 3), (x) => x.toFixed(3))}, ...`,
  );
}
await llm.close();

const judge = new LLM({ model: reranker ?? embedder });
const scores = await judge.score(question, texts);
const best = scores.reduce((a, b, i) => (b.outputs.score > scores[a]!.outputs.score ? i : a), 0);
console.log(`${question} → ${texts[best]}`);
await judge.close();
