// Lets a model call a function, and runs it: npx tsx examples/tools.ts [model]
import { type ChatMessageInput, LLM, type ToolInput } from 'svc';

const llm = new LLM({ model: process.argv[2] });
const rooms = new Map([
  ['kitchen', 21],
  ['cellar', 12],
]);
const tools: ToolInput[] = [
  {
    type: 'function',
    function: {
      name: 'temperature_of',
      description: 'The temperature of a room, in degrees Celsius',
      parameters: {
        type: 'object',
        properties: { room: { type: 'string', enum: [...rooms.keys()] } },
        required: ['room'],
        additionalProperties: false,
      },
    },
  },
];
const messages: ChatMessageInput[] = [{ role: 'user', content: 'How warm is it in the kitchen?' }];

// A small model would not call by itself: the call is enforced.
const sampling = { temperature: 0, max_tokens: 64 };
const [asked] = await llm.chat(messages, sampling, {
  tools,
  toolChoice: 'required',
  parallelToolCalls: false,
});
const message = asked?.outputs[0]?.message;
if (message === undefined) throw new Error('there is no answer');
// A model that knows tools answers with the results: ask again with these messages.
messages.push(message);
for (const { id, function: called } of message.tool_calls) {
  const { room } = JSON.parse(called.arguments);
  console.log(`${called.name}(${room}) = ${rooms.get(room)}`);
  messages.push({ role: 'tool', tool_call_id: id, content: String(rooms.get(room)) });
}
await llm.close();
