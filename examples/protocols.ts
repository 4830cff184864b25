// Asks a running server by two more protocols, with their own client libraries:
// npx tsx examples/protocols.ts [URL] [API key]
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

const [url = 'http://127.0.0.1:8000', apiKey = 'unused'] = process.argv.slice(2);

// /v1/responses: the server keeps what was said, and goes on with it by the id of a response.
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey });
const model = (await openai.models.list()).data[0]?.id ?? '';
const limits = { model, max_output_tokens: 32 };
const first = await openai.responses.create({ ...limits, input: 'Tell me a story about a dog.' });
console.log(`response: ${first.output_text}`);
const stream = openai.responses.stream({ ...limits, input: 'And then?', previous_response_id: first.id });
process.stdout.write('and then: ');
stream.on('response.output_text.delta', ({ delta }) => {
  process.stdout.write(delta);
});
console.log(`\n${(await stream.finalResponse()).usage?.input_tokens} tokens were read`);

// /v1/messages: text comes in blocks.
const anthropic = new Anthropic({ baseURL: url, apiKey });
const message = anthropic.messages.stream({
  model,
  max_tokens: 32,
  system: 'You are a friendly assistant.',
  messages: [{ role: 'user', content: 'Tell me a story about a cat.' }],
});
process.stdout.write('message: ');
message.on('text', (text) => {
  process.stdout.write(text);
});
console.log(`\nstopped by ${(await message.finalMessage()).stop_reason}`);
