// Answers several conversations in one batch: npx tsx examples/offline-chat.ts [model]
import { LLM } from 'svc';

const llm = new LLM({ model: process.argv[2] });
const questions = ['Hello, how are you?', 'What is your name?', 'Tell me a story about a dog.'];
const conversations = questions.map((content) => [{ role: 'user', content }]);
const answers = await llm.chat(conversations, { temperature: 0, max_tokens: 64 });
for (const [index, answer] of answers.entries()) {
  console.log(`${questions[index]}\n  ${answer.outputs[0]?.text}`);
}
await llm.close();
