// Completes a prompt with a model and with a LoRA adapter of it, in one batch: npx tsx examples/offline-adapter.ts model adapter
import { LLM } from 'svc';

const [model, path] = process.argv.slice(2);
if (path === undefined) throw new Error('give the folders of a model and of an adapter');
const llm = new LLM({ model, enableLora: true, maxLoraRank: 64 });
const prompts = ['Once upon a time', 'Once upon a time'];
const adapter = [null, { name: 'mine', path }];
const outputs = await llm.generate(prompts, { temperature: 0, max_tokens: 32 }, { adapter });
for (const [index, { outputs: samples }] of outputs.entries()) {
  console.log(`${index === 0 ? 'model' : 'adapter'}: ${samples[0]?.text}`);
}
await llm.close();
