// Asks a model that sees about an image: npx tsx examples/offline-image.ts model image
import { pathToFileURL } from 'node:url';
import { LLM } from 'svc';

const [model, image] = process.argv.slice(2);
if (image === undefined) throw new Error('give a model that sees, such as SmolVLM, and a file of an image');
const llm = new LLM({ model });
const content = [
  { type: 'image_url', image_url: { url: pathToFileURL(image).href } },
  { type: 'text', text: 'What does this image show?' },
] as const;
const [answer] = await llm.chat([{ role: 'user', content }], { temperature: 0, max_tokens: 64 });
console.log(answer?.outputs[0]?.text);
console.log(`${answer?.prompt_token_ids.length} tokens in the prompt`);
await llm.close();
