// Writes a request as a user would send it from elsewhere.

import { hasKey } from '../api.ts';
import type { GenerationRequest } from './request-body.ts';

export const LANGUAGES = ['curl', 'JavaScript', 'Python'] as const;
export type Language = (typeof LANGUAGES)[number];

export function asCode(language: Language, { path, body }: GenerationRequest): string {
  const isChat = path === 'v1/chat/completions';
  const method = isChat ? 'chat.completions.create' : 'completions.create';
  switch (language) {
    case 'curl':
      return asCurl(path, body);
    case 'JavaScript':
      return asJavaScript(method, body);
    case 'Python':
      return asPython(method, body);
  }
}

function asCurl(path: string, body: object): string {
  const quoted = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
  const key = hasKey() ? ` \\\n  -H "Authorization: Bearer $SVC_API_KEY"` : '';
  return `curl ${addressOf(path)} \\\n  -H 'Content-Type: application/json'${key} \\\n  -d '${quoted}'\n`;
}

function asJavaScript(method: string, body: object): string {
  const key = hasKey() ? 'process.env.SVC_API_KEY' : "'none'";
  const isStream = 'stream' in body;
  const shown = isStream
    ? 'for await (const chunk of answer) console.log(JSON.stringify(chunk));'
    : 'console.log(JSON.stringify(answer, null, 2));';
  return `import OpenAI from 'openai';

const client = new OpenAI({ baseURL: '${addressOf('v1')}', apiKey: ${key} });
const answer = await client.${method}(${JSON.stringify(body, null, 2)});
${shown}
`;
}

/** JSON is read by Python's own parser, so that true, false and null need no translation. */
function asPython(method: string, body: object): string {
  const key = hasKey() ? 'os.environ["SVC_API_KEY"]' : '"none"';
  const isStream = 'stream' in body;
  const shown = isStream ? 'for chunk in answer:\n    print(chunk)' : 'print(answer)';
  return `import json
import os
from openai import OpenAI

client = OpenAI(base_url="${addressOf('v1')}", api_key=${key})
body = json.loads(${JSON.stringify(JSON.stringify(body))})
answer = client.${method}(model=body.pop("model"), ${argumentsOf(body)})
${shown}
`;
}

/** Fields that the client library knows are arguments; the others go in \`extra_body\`. */
function argumentsOf(body: object): string {
  const known = ['messages', 'prompt', 'stream'].filter((name) => name in body);
  return [...known.map((name) => `${name}=body.pop("${name}")`), 'extra_body=body'].join(', ');
}

function addressOf(path: string): string {
  return new URL(path, location.href.split('#')[0]).href;
}
