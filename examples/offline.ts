// Completes a list of prompts in one batch: npx tsx examples/offline.ts [model]
import { LLM } from 'svc';

const llm = new LLM({ model: process.argv[2] });
const prompts = ['Once upon a time', 'The little dog', 'One day, a big red ball', 'Tom and his sister'];
const outputs = await llm.generate(prompts, { temperature: 0.8, top_p: 0.95, max_tokens: 32, seed: 1 });
for (const { prompt, outputs: samples } of outputs) {
  for (const { text, finish_reason } of samples) console.log(`${prompt} →${text} (${finish_reason})`);
}
await llm.close();
