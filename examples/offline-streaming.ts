// Writes an answer as it is made, until it ends or Ctrl-C is pressed: npx tsx examples/offline-streaming.ts [model]
import { LLM } from 'svc';

const llm = new LLM({ model: process.argv[2] });
const interrupt = new AbortController();
process.once('SIGINT', () => interrupt.abort());
const messages = [{ role: 'user', content: 'Tell me a story about a dog.' }];
const params = { temperature: 0, max_tokens: 256 };
try {
  const stream = llm.streamChat(messages, params, { signal: interrupt.signal });
  for await (const { text } of stream) process.stdout.write(text);
} catch (error) {
  if (!interrupt.signal.aborted) throw error;
}
process.stdout.write('\n');
await llm.close();
