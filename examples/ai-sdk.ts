// The model as one of the `ai` SDK, without a server between: npx tsx examples/ai-sdk.ts [model]
import { generateText, Output, streamText, tool } from 'ai';
import { LLM } from 'svc';
import { languageModel } from 'svc/ai-sdk';
import { z } from 'zod';

const llm = new LLM({ model: process.argv[2] });
const model = languageModel(llm);
const settings = { model, temperature: 0, maxOutputTokens: 64 };

const { textStream } = streamText({ ...settings, prompt: 'Hello! How are you?' });
for await (const text of textStream) process.stdout.write(text);
process.stdout.write('\n');

const person = z.object({ name: z.enum(['Ann', 'Ben']), age: z.union([z.literal(30), z.literal(40)]) });
const { output } = await generateText({
  ...settings,
  prompt: 'Who are you?',
  output: Output.object({ schema: person }),
});
console.log(output);

// A small model would not call by itself: the call is enforced.
const { toolResults, usage } = await generateText({
  ...settings,
  prompt: 'How warm is it in the kitchen?',
  toolChoice: { type: 'tool', toolName: 'temperatureOf' },
  tools: {
    temperatureOf: tool({
      description: 'The temperature of a room, in degrees Celsius',
      inputSchema: z.object({ room: z.enum(['kitchen', 'cellar']) }),
      execute: ({ room }) => (room === 'kitchen' ? 21 : 12),
    }),
  },
});
for (const { toolName, input, output: degrees } of toolResults)
  console.log(`${toolName}(${JSON.stringify(input)}) = ${degrees}`);
console.log(`${usage.inputTokens} tokens in, ${usage.outputTokens} out`);
await llm.close();
