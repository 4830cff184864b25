// Talks to a running server with the official client, token by token:
// npx tsx examples/streaming-client.ts [base URL] [API key]
import OpenAI from 'openai';

const [baseURL = 'http://127.0.0.1:8000/v1', apiKey = 'unused'] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey });
const model = (await client.models.list()).data[0]?.id ?? '';
const stream = await client.chat.completions.create({
  model,
  messages: [{ role: 'user', content: 'Tell me a story about a dog.' }],
  max_tokens: 64,
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '');
process.stdout.write('\n');
