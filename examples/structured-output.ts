// Answers that are JSON of a schema, and one of a few words: npx tsx examples/structured-output.ts [model]
import { LLM } from 'svc';

const llm = new LLM({ model: process.argv[2] });
const schema = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 20 }, age: { type: 'integer', minimum: 0, maximum: 150 } },
  required: ['name', 'age'],
  additionalProperties: false,
};
const [form, mood] = await llm.chat(
  [
    [{ role: 'user', content: 'My name is Tom and I am 7 years old. Who am I?' }],
    [{ role: 'user', content: 'I lost my ball. How do I feel?' }],
  ],
  [
    { temperature: 0, max_tokens: 200, structured_outputs: { json: schema, disable_any_whitespace: true } },
    { temperature: 0, structured_outputs: { choice: ['happy', 'sad'] } },
  ],
);
console.log(JSON.parse(form?.outputs[0]?.text ?? ''));
console.log(mood?.outputs[0]?.text);
await llm.close();
